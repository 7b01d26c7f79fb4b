"""Symmetric memory: the same collectives on arrays that peers read in place."""

from __future__ import annotations

import gc
import resource
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from ml_dtypes import bfloat16

from ringtree import init, spawn
from ringtree.plan import choose
from ringtree.runtime.communicator.communicator import Communicator
from ringtree.runtime.engines.engine import in_threads
from tests.runtime.conftest import Pools
from tests.waiting import Event


def arrays(comm: Communicator) -> None:
    n, me = comm.size, comm.rank
    for dtype in ("float32", np.int64, bfloat16, "bfloat16"):
        x = comm.empty((3, 5), dtype)
        assert x.shape == (3, 5)
        assert not x.astype(np.float32).any()
        assert x.flags.c_contiguous
        assert x.flags.writeable
        x[:] = me + 1
        y = comm.empty((3, 5), dtype)
        comm.all_reduce(x, out=y)
        assert (y == n * (n + 1) // 2).all()
        assert (x == me + 1).all()
        comm.all_reduce(x, out=x)
        assert np.array_equal(x, y)
    assert comm.empty(0).shape == (0,)
    assert comm.empty(7).dtype == np.float32


def mixed(comm: Communicator) -> None:
    """Any of input and output may be symmetric, on any rank, and only part of one may take part."""
    n, me = comm.size, comm.rank
    shared = comm.empty(40_000, np.float64)
    private = np.empty(40_000)
    for turn in range(6):
        x = shared if (me + turn) % 2 else private
        out = shared if (me + turn) % 3 == 0 else private
        x[:] = me + turn
        low = 1000 * turn
        got = comm.all_reduce(x[low:], out=out[low:])
        assert (got == n * (n - 1) / 2 + n * turn).all()
        x[:] = me
        comm.barrier()
        assert (comm.all_gather(x[:100]) == np.arange(n)[:, None]).all()


def reused_at_once(comm: Communicator) -> None:
    """An input may be written again as soon as the call has returned."""
    x = comm.empty(100_000, np.int32)
    for turn in range(20):
        x[:] = turn + comm.rank
        total = comm.all_reduce(x)
        x[:] = -1
        assert (total == comm.size * turn + comm.size * (comm.size - 1) // 2).all()


def sums_that_change(comm: Communicator) -> None:
    """Sums of ever-new data, in place, out of place, and where some arrays are private; in one window and in many."""
    n, me = comm.size, comm.rank
    random = np.random.default_rng(me)
    for count, dtype in ((8192 * n, np.float32), (65_536, np.int64), (262_147, np.int8), (100_000, np.float64)):
        x, y = comm.empty(count, dtype), comm.empty(count, dtype)
        private = np.empty(count, dtype)
        for turn, op in enumerate(("sum", "max") if np.dtype(dtype).kind == "i" else ("avg", "sum")):
            for taken, out in ((x, x), (x, y), (private, x), (x, private), (x, x if me % 2 else private)):
                mine = random.integers(0, 100 // n, count).astype(dtype)
                taken[:] = mine
                everyones = comm.all_gather(mine).reshape(n, -1)
                want = {"sum": np.sum, "avg": np.mean, "max": np.max}[op](everyones, axis=0)
                assert np.allclose(comm.all_reduce(taken, op, out=out), want), (count, dtype, op, turn)
                assert out is taken or np.array_equal(taken, mine)


@pytest.mark.parametrize(
    ("engine", "ranks"),
    [
        *(("shm", n) for n in (2, 3, 4, 8)),
        *(("reference", n) for n in (2, 3)),
        *(pytest.param("reference", n, marks=pytest.mark.slow) for n in (4, 8)),
    ],
)
def test_sums_of_symmetric_arrays(pools: Pools, engine: str, ranks: int) -> None:
    pools(engine, ranks).run(sums_that_change)


def sums_in_groups(comm: Communicator) -> None:
    with comm.split(comm.rank % 2) or comm as half:
        sums_that_change(half)


def test_sums_of_symmetric_arrays_in_groups(pools: Pools) -> None:
    pools("shm", 4).run(sums_in_groups)


@pytest.mark.parametrize("act", [arrays, mixed, reused_at_once])
@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_symmetric_memory(pools: Pools, engine: str, ranks: int, act: object) -> None:
    pools(engine, ranks).run(act)  # type: ignore[arg-type]


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("first", [0, 1])
def test_the_first_rank_of_a_kind_of_sum_decides_by_its_own_output(first: int, symmetric: bool) -> None:
    decided = Event()

    def rank(comm: Communicator) -> tuple[str, str]:
        shared, private = comm.empty(2500), np.empty(2500, np.float32)
        out = shared if symmetric == (comm.rank == first) else private
        x = np.full(2500, comm.rank + 1, np.float32)
        if comm.rank != first:
            decided.wait()
        work = comm.all_reduce(x, out=out, async_op=True)
        decided.set()
        assert (work.result() == 3).all() and (comm.all_reduce(x) == 3).all()
        best = choose("all_reduce", 2, x.nbytes, memory=replace(comm.where, symmetric=symmetric))  # type: ignore[type-var]
        return comm.chosen("all_reduce", 2500).part.program.name, best.algorithm

    found = spawn(rank, 2)
    assert found == [(found[0][1], found[0][1])] * 2


def test_an_array_outlives_its_communicator(engine: str) -> None:
    def rank(comm: Communicator) -> float:
        with comm.split(0) or comm as sub:
            x = sub.empty(1000)
            x[:] = sub.rank + 1
            sub.all_reduce(x, out=x)
        del sub
        gc.collect()
        x *= 2
        return float(x.sum())

    assert spawn(rank, 2, engine=engine, threads=in_threads(engine)) == [6000.0, 6000.0]


def test_ranks_that_request_different_arrays_raise(engine: str) -> None:
    def rank(comm: Communicator) -> str:
        try:
            comm.empty(3 + comm.rank)
        except RuntimeError as error:
            return str(error)
        return ""

    for message in spawn(rank, 2, engine=engine, threads=in_threads(engine), timeout_s=60):
        three, four = (f"an array of shape ({n},) of float32" for n in (3, 4))
        assert message == f"rank 0 asks for {three}, rank 1 for {four}; expected the same"


def test_more_than_the_machine_has_is_refused_on_every_rank_at_once(engine: str) -> None:
    def rank(comm: Communicator) -> str:
        try:
            comm.empty(1 << 44)
        except MemoryError as error:
            return str(error)
        return ""

    for message in spawn(rank, 3, engine=engine, threads=in_threads(engine), timeout_s=60):
        assert message.startswith("no room for ")
        assert message.endswith("are available; free memory or raise its limit")


def test_a_rank_that_finds_no_room_for_its_share_fails_on_all_and_the_next_array_is_shared() -> None:
    def rank(comm: Communicator) -> tuple[str, list[float]]:
        if comm.rank == 1:
            has_bytes = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (has_bytes + (4 << 20), resource.RLIM_INFINITY))
        with pytest.raises(MemoryError) as raised:
            comm.empty(1 << 20)
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        array, found = comm.empty(1 << 16), []
        for root in range(comm.size):
            array[:] = comm.rank + 1
            found.append(float(comm.broadcast(array, root=root)[-1]))
        comm.barrier()
        got = np.empty(1, np.float32)
        comm.get(array[:1], (comm.rank + 1) % comm.size, out=got)
        return str(raised.value), [*found, float(got[0])]

    for message, found in spawn(rank, 3, timeout_s=60):
        assert found == [1, 2, 3, 3]
        assert message.startswith(
            "no room for an array of shape (1048576,) of float32, 3 times in shared memory: rank 1: "
        )


def test_a_negative_length_is_refused() -> None:
    with pytest.raises(ValueError, match=r"shape \(-3,\): expected lengths of at least 0"):
        init().empty(-3)
