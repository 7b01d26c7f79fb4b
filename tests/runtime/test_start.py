"""The start of a rank: `init()` loads what it needs itself, and what a first call needs is loaded there.

Times are benchmarks/start.py's; modules are counted here, for they are most of the time, on a busy machine too.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import ringtree
from ringtree.runtime.communicator.communicator import Communicator

STARTS = """
import sys, numpy
before = set(sys.modules)
import ringtree
comm = ringtree.init()
print(*set(sys.modules) - before)
comm.barrier()
"""

CALLS = """
import numpy, sys
import ringtree
with ringtree.init() as comm:
    for collective in ("all_reduce", "all_gather", "broadcast", "all_to_all", "reduce_scatter", "gather", "scan"):
        getattr(comm, collective)(numpy.ones(3 << 14, numpy.float32))
from ringtree.plan import choose_over_hosts
from ringtree.price import Hosts, SharedMemory
choose_over_hosts("all_reduce", Hosts((0, 0, 1, 1, 1), SharedMemory(2, 8, 1 << 17), 2e-5, 1e9), None, 1 << 20)
print(*sys.modules)
"""
HEAVY = {
    "asyncio", "bisect", "concurrent", "dataclasses", "difflib", "hashlib", "ipaddress", "json", "logging", "pathlib",
    "platform", "random", "secrets", "selectors", "shutil", "socket", "subprocess", "tempfile", "threading", "urllib",
    "zlib", "numpy.typing",
}  # fmt: skip
"""Modules that take from 0.2 ms (zlib) or 0.6 (dataclasses, and as much again for each class) to ten."""
FOR_CALLS = {"algorithms", "plan", "price", "transform", "verify"}
"""Rooms that the first call needs."""
SLOW_PATH = {f"ringtree.{module}" for module in ("ir.collective", "runtime.arrays.array", "runtime.types")}
"""What the first call needs that is not a repeated one."""
MOST_OWN, MOST_OTHERS = 58, 9 if sys.version_info < (3, 11) else 8
"""Modules of a rank beside numpy's, where each takes at least 0.1 ms: a new one ought to be loaded late. Python 3.10
loads parts of importlib that later ones have frozen."""


def loaded(ranks: int, program: str = STARTS) -> list[set[str]]:
    """The modules that each rank of a job prints: by default those that it loads beside numpy's in `init()`."""
    job = os.environ | {"RINGTREE_JOB": f"starts-{os.getpid()}", "RINGTREE_WORLD_SIZE": str(ranks)}
    environments = [job | {"RINGTREE_RANK": str(rank)} for rank in range(ranks)]
    command = [sys.executable, "-c", program]
    started = [subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) for env in environments]
    found = [set(rank.communicate(timeout=60)[0].split()) for rank in started]
    assert not any(rank.returncode for rank in started)
    return found


def test_init_loads_few_modules() -> None:
    for modules in loaded(2):
        own = {module for module in modules if module.partition(".")[0] == "ringtree"}
        others = modules - own
        assert "ringtree.runtime.communicator.communicator" in own
        assert not {module.split(".")[1] for module in own - {"ringtree"}} & FOR_CALLS
        assert not own & SLOW_PATH
        assert not {module for module in others if module in HEAVY or module.partition(".")[0] in HEAVY}
        assert len(own) <= MOST_OWN, sorted(own)
        assert len(others) <= MOST_OTHERS, sorted(others)


def test_calls_do_not_load_masked_arrays() -> None:
    """They take each rank 40 ms, and numpy loads them for its `unique` of values alone, its `union1d`, `median`."""
    for modules in loaded(3, CALLS):
        assert "ringtree.transform.nest_in_hosts" in modules
        assert "numpy.ma" not in modules


@pytest.mark.parametrize("name", ["storage.load", "mpi.COMM_WORLD", "spawn"])
def test_the_package_has_names_and_doors_by_attribute(name: str) -> None:
    program = f"import ringtree; assert 'storage' in dir(ringtree); ringtree.{name}"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_the_slow_path_is_made_by_the_first_call_that_takes_it() -> None:
    with ringtree.init() as comm:
        assert comm._used_calls() is None
        comm.barrier()
        assert comm._used_calls() is comm._calls


def test_a_timeout_of_before_the_first_call_holds_in_it() -> None:
    with ringtree.init() as comm:
        comm.set_timeout(7)
        comm.barrier()
        comm.set_timeout(8)
        assert comm._calls._parameters.timeout_s == comm.timeout_s == 8


def test_a_communicator_that_made_no_call_is_closed_for_calls() -> None:
    comm = ringtree.init()
    comm.close()
    with pytest.raises(RuntimeError, match=r"this communicator \(rank 0 of 1\) is closed"):
        comm.all_reduce([1.0], async_op=True)  # which asks the slow path at once
    assert isinstance(comm, Communicator)


def test_an_algorithm_that_there_is_not_is_refused_before_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RINGTREE_ALGORITHM", "spiral")
    with pytest.raises(ValueError, match="RINGTREE_ALGORITHM is 'spiral': no algorithm 'spiral'"):
        ringtree.init()
