"""The newcomer's first command: one line names what a machine lacks, before anything is made."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def make(folder: Path, *words: str, path: str | None = None) -> subprocess.CompletedProcess[str]:
    """`make` in a folder that holds the Makefile and nothing else."""
    shutil.copy(ROOT / "Makefile", folder)
    (folder / "pyproject.toml").touch()
    env = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKELEVEL", "CXX", "PYTHON")}
    return subprocess.run(
        ["make", "--no-print-directory", *words],
        cwd=folder,
        env={**env, "PATH": path or os.environ["PATH"]},
        capture_output=True,
        text=True,
    )


def script(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def python_without(folder: Path, what: str) -> str:
    """An interpreter whose answer to the question about `what` is no."""
    return script(folder / "python", f'case "$*" in *{what}*) exit 1;; esac\nexec {sys.executable} "$@"')


@pytest.mark.parametrize(
    ("missing", "expected"),
    [
        ("python", "no missing-python found; install Python 3.10 or newer"),
        ("version_info", "is older than 3.10; say make PYTHON="),
        ("ensurepip", "cannot make virtual environments; install python3-venv"),
        ("Python.h", "are missing; install python3-dev"),
        ("compiler", "no C++ compiler found; install g++ or clang"),
        ("C++20", "does not compile C++20; install g++ 10 or clang 12 or newer"),
    ],
)
def test_a_missing_tool_is_named_in_one_line(tmp_path: Path, missing: str, expected: str) -> None:
    words = [f"PYTHON={sys.executable}", "CXX=true"]
    if missing == "python":
        words[0] = "PYTHON=missing-python"
    elif missing == "compiler":
        words[1] = "CXX="
    elif missing == "C++20":
        words[1] = "CXX=false"
    else:
        words[0] = f"PYTHON={python_without(tmp_path, missing)}"
    done = make(tmp_path, "setup", *words)
    assert done.returncode != 0
    assert done.stderr.startswith("make: ") and expected in done.stderr.splitlines()[0]
    assert not (tmp_path / ".venv").exists()


def test_the_engine_is_built_anew_for_a_new_package_and_not_for_a_changed_one(tmp_path: Path) -> None:
    (tmp_path / "src" / "one").mkdir(parents=True)
    (tmp_path / "src" / "one" / "__init__.py").touch()
    make(tmp_path)
    listed = tmp_path / "build" / "packages"
    os.utime(listed, (0, 0))
    (tmp_path / "src" / "one" / "__init__.py").write_text("changed = True\n")
    make(tmp_path)
    assert listed.stat().st_mtime == 0
    (tmp_path / "src" / "two").mkdir()
    (tmp_path / "src" / "two" / "__init__.py").touch()
    make(tmp_path)
    assert listed.stat().st_mtime > 0 and listed.read_text() == "src/one/__init__.py\nsrc/two/__init__.py\n"


def test_make_alone_lists_the_targets(tmp_path: Path) -> None:
    listed = make(tmp_path).stdout.split("\n")
    assert [line.split()[1] for line in listed if line] == [
        "help", "demo", "test", "test-docs", "test-hosts", "test-pages", "test-torch", "test-torch-debian",
        "test-ray", "test-slurm", "check", "bench", "validate", "browser", "screenshots",
        "test-clients", "test-sglang", "test-vllm", "test-torch-suite", "test-mpi4py-suite",
        "test-long", "test-core", "test-all", "soak", "growth", "chaos", "fuzz", "mutants", "wheels", "test-wheels",
        "setup", "clean",
    ]  # fmt: skip


@pytest.mark.parametrize("required", [False, True])
def test_without_npm_the_unchecked_pages_are_reported_or_fail(tmp_path: Path, required: bool) -> None:
    found = {name: shutil.which(name) for name in ("make", "sh", "find", "true")}
    for name, there in found.items():
        assert there is not None
        (tmp_path / "bin" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "bin" / name).symlink_to(there)
    words = ["RINGTREE_BROWSER_REQUIRED=1"] if required else ["RINGTREE_BROWSER_REQUIRED="]
    done = make(tmp_path, "check-pages", *words, path=str(tmp_path / "bin"))
    lacking = "no npm with node 20 or newer found; install nodejs and npm"
    if required:
        assert done.returncode != 0
        assert done.stderr.splitlines()[0] == f"make: RINGTREE_BROWSER_REQUIRED=1, but {lacking}"
    else:
        assert (done.returncode, done.stdout) == (0, f"make: the pages' scripts are not checked: {lacking}\n")


def test_marks_are_where_make_looks_for_them() -> None:
    """`make test-docs` and `make test-hosts` look in one place each; torch's and Ray's tests have other targets."""
    tests = ROOT / "tests"
    for path in tests.rglob("test_*.py"):
        room, words = str(path.parent.relative_to(tests)), path.read_text(encoding="utf-8")
        if path != Path(__file__):
            assert "mark.docs" not in words or room == ".", f"{path}: make test-docs does not look there"
            known = room == "runtime/hosts" or room.split("/")[0] in ("torch_backend", "training", "ray")
            assert "lab: Lab" not in words or known, f"{path}: make test-hosts does not look there"
