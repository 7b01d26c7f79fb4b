"""Runs a program whose `from mpi4py import MPI` is then ringtree.mpi: a file, or `-m package.module`, with arguments.
Under `ringtree run -n 4 -m ringtree.mpi program.py` each rank does."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from ringtree import mpi


def main(arguments: list[str]) -> int:
    """Runs the program; 2 where none is named."""
    named = arguments[:1] == ["-m"]
    if len(arguments) <= named:
        sys.stderr.write(f"{__doc__}\n")
        return 2
    mpi.replace()
    sys.argv[:] = arguments[named:]
    if named:
        sys.path.insert(0, "")
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        sys.path.insert(0, str(Path(sys.argv[0]).resolve().parent))
        runpy.run_path(sys.argv[0], run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
