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
    asked = run("--help")
    assert asked.returncode == 0 and "ringtree.mpi program.py" in asked.stdout


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["none.py"], "no file none.py; expected a program, or -m package.module"),
        (["/usr"], "/usr is a folder without __main__.py; expected a program, or -m package.module"),
        (["-m", "none.at_all"], "no module none.at_all; expected one of the current folder, or an installed one"),
        (["-m", "json.none"], "no module json.none; expected one of the current folder, or an installed one"),
    ],
)
def test_a_program_that_is_not_there_is_one_line(words: list[str], expected: str) -> None:
    done = subprocess.run([sys.executable, "-m", "ringtree.mpi", *words], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (2, f"python -m ringtree.mpi: {expected}\n")


@pytest.mark.parametrize("words", [["-c", "{code}", "a", "b"], ["-", "a", "b"]])
def test_code_runs_as_python_runs_it(words: list[str]) -> None:
    code = (
        "import sys\nfrom mpi4py import MPI\n"
        "def f():\n    return MPI.COMM_WORLD.allreduce(1), sys.argv, __name__\nprint(f())\n"
    )
    command = [sys.executable, "-m", "ringtree.mpi", *(word.format(code=code) for word in words)]
    done = subprocess.run(command, capture_output=True, text=True, input=code)
    assert (done.returncode, done.stdout) == (0, f"(1, {[words[0], 'a', 'b']}, '__main__')\n"), done.stderr


def test_a_program_finds_what_lies_beside_it_from_another_folder(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("import os\nos.chdir('/')\nprint(open(__file__).readline())\n")
    command = [sys.executable, "-m", "ringtree.mpi", "program.py"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "import os\n\n"), done.stderr
