"""mpi4py's own demos and its bench's ringtest, of which nothing is changed but the import. They are not ours to keep:
RINGTREE_MPI4PY names the folder of an unpacked source distribution of mpi4py (it has demo/ and src/)."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

SHORT = "skip=2, loop=20, skip_large=1, loop_large=3, MAX_MSG_SIZE=1 << 14"
SIZES = [0, *(1 << i for i in range(15))]
DEMOS = {
    "osu_latency": SIZES,
    "osu_bw": SIZES[1:],
    "osu_allgather": SIZES,
    "osu_alltoall": SIZES,
    "osu_bcast": SIZES,
    "osu_barrier": [0],
}
"""Each demo, and the sizes that it prints a line for."""


@pytest.fixture(scope="session")
def mpi4py_folder() -> Path:
    folder = os.environ.get("RINGTREE_MPI4PY")
    if not folder:
        pytest.skip("no sources of mpi4py: set RINGTREE_MPI4PY to the folder of an unpacked sdist")
    return Path(folder)


def run(program: str, folder: Path, ranks: int) -> list[str]:
    """What rank 0 of a program printed, line by line."""
    (folder / "program.py").write_text(program, encoding="utf-8")
    command = [sys.executable, "-m", "ringtree.cli", "run", "-n", str(ranks), "program.py"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return re.findall(r"^\[0\] (.*)$", done.stdout, re.MULTILINE)


def imported(source: Path, target: Path, line: str) -> None:
    """A copy of a file with that one line, its import of MPI, changed to ours."""
    text = source.read_text(encoding="utf-8")
    assert line in text
    target.write_text(text.replace(line, "from ringtree import mpi as MPI"), encoding="utf-8")


@pytest.mark.parametrize("name", DEMOS)
def test_a_demo_runs(name: str, mpi4py_folder: Path, tmp_path: Path) -> None:
    imported(mpi4py_folder / f"demo/{name}.py", tmp_path / f"{name}.py", "from mpi4py import MPI")
    rows = [line for line in run(f"from {name} import {name}\n{name}({SHORT})\n", tmp_path, 2) if line[0] != "#"]
    assert [int(row.split()[0]) for row in rows] == DEMOS[name]
    assert all(float(row.split()[1]) > 0 for row in rows)


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_the_ringtest_runs(ranks: int, mpi4py_folder: Path, tmp_path: Path) -> None:
    imported(mpi4py_folder / "src/mpi4py/bench.py", tmp_path / "bench.py", "from . import MPI")
    program = (
        "import bench\nfrom ringtree import mpi as MPI\nfor command in (bench.helloworld, bench.ringtest):\n"
        "    command(MPI.COMM_WORLD, ['-n', '100', '-l', '50', '-s', '2'] if command is bench.ringtest else [])\n"
    )
    hello, ring = run(program, tmp_path, ranks)
    assert hello.startswith(f"Hello, World! I am process 0 of {ranks} on ")
    assert re.fullmatch(rf"time for 50 loops = \S+ seconds \({ranks} processes, 100 bytes\)", ring)
