"""On macOS and Windows, as far as Linux can play them: what needs no ranks runs, and one line refuses the rest."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ELSEWHERE = str(Path(__file__).parent / "elsewhere.py")
REFUSED = "ranks run on Linux only, and this system is"


def on(system: str, lines: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, ELSEWHERE, system, *lines]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("system", ["darwin", "win32"])
def test_what_needs_no_ranks_runs(system: str, tmp_path: Path) -> None:
    lines = [
        "prove ring --collective all_reduce -n 8",
        "simulate double_tree -n 16 --bytes 1M --html played.html",
        "show ring -n 4 --html shown.html",
        "plan all_reduce --topology dgx-h100 --nodes 4 --bytes 8M",
        "sweep all_reduce --topology dgx-h100 --bytes 1M",
        "topo list",
        "algorithms",
    ]
    done = on(system, lines, tmp_path)
    assert done.returncode == 0, done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"played.html", "shown.html"}


@pytest.mark.parametrize("system", ["darwin", "win32"])
def test_commands_that_start_ranks_are_refused_in_one_line(system: str, tmp_path: Path) -> None:
    lines = ["run -n 2 program.py", "bench all_reduce -n 2", "tune"]
    errors = on(system, lines, tmp_path).stderr.splitlines()
    for line, error in zip(lines, errors, strict=False):
        assert error.startswith(f"ringtree {line.split()[0]}: {REFUSED} {system}")
    assert errors[len(lines) :] == [f"{line}: exit code 1" for line in lines]


@pytest.mark.parametrize("system", ["darwin", "win32"])
@pytest.mark.parametrize("call", ["init", "spawn"])
def test_calls_that_need_ranks_are_refused_in_one_line(system: str, call: str, tmp_path: Path) -> None:
    last = on(system, [call], tmp_path).stderr.splitlines()[-1]
    assert last.startswith(f"RuntimeError: {REFUSED} {system}") and "docs/installing.md" in last
