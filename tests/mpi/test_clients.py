"""Packages of others that use mpi4py, unchanged: mpi4py-fft and schwimmbad's pool under emcee. docs/mpi4py.md has how
they are installed."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent / "clients"
CLIENTS = {
    "transform": (["mpi4py_fft"], "the transforms agree", 4),
    "sample": (["schwimmbad", "multiprocess", "emcee"], "the chains agree 3", 1),
}
"""Each program: the packages it needs, what a rank prints, and how many ranks do."""


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ringtree.cli", "run", "-n", "4", "-m", "ringtree.mpi", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


@pytest.mark.slow
@pytest.mark.parametrize("name", CLIENTS)
def test_a_client_runs_unchanged(name: str) -> None:
    packages, line, count = CLIENTS[name]
    if missing := [package for package in packages if importlib.util.find_spec(package) is None]:
        pytest.skip(f"{', '.join(missing)} not installed: pip install --no-deps, as in docs/mpi4py.md")
    done = run(str(HERE / f"{name}.py"))
    assert done.returncode == 0, done.stderr + done.stdout
    assert done.stdout.count(line) == count


def test_a_program_of_mpi4pys_runs_as_it_is(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("import sys\nfrom mpi4py import MPI\nprint(MPI.COMM_WORLD.allreduce(1), sys.argv[1:])\n")
    done = run(str(program), "a", "b")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("4 ['a', 'b']") == 4
    assert "ringtree.mpi program.py" in run().stderr
