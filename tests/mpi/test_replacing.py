"""ringtree.mpi in the place of mpi4py.MPI: a program's own import line gets it."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
from ringtree import mpi
mpi.replace()
import importlib.util
import mpi4py
assert importlib.util.find_spec("mpi4py").name == "mpi4py"
mpi4py.rc.threads = False
mpi4py.rc(initialize=True, threads=False)
from mpi4py import MPI
import mpi4py.MPI as again
assert MPI is mpi is again is mpi4py.MPI
mpi.replace()
print(MPI.COMM_WORLD.allreduce(1))
"""

TOO_LATE = """
import sys, types
sys.modules["mpi4py"] = types.ModuleType("mpi4py")
sys.modules["mpi4py.MPI"] = types.ModuleType("mpi4py.MPI")
from ringtree import mpi
mpi.replace()
"""


def run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)


def test_an_import_of_mpi4py_is_ringtrees() -> None:
    done = run(PROGRAM)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "1\n"


def test_a_setting_that_mpi4py_lacks_is_refused() -> None:
    bare = "from ringtree import mpi; mpi.replace(); import mpi4py; mpi4py.rc(thread=False)"
    assert "TypeError: mpi4py.rc has no 'thread'; expected one of initialize, threads, " in run(bare).stderr


def test_after_mpi4py_it_is_refused() -> None:
    assert "before its first import" in run(TOO_LATE).stderr
