"""Symmetric memory: the same collectives on arrays that peers read in place."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from ml_dtypes import bfloat16

from ringtree import spawn
from ringtree.runtime.communicator import Communicator
from tests.runtime.conftest import Pools


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


@pytest.mark.parametrize("act", [arrays, mixed, reused_at_once])
@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_symmetric_memory(pools: Pools, engine: str, ranks: int, act: object) -> None:
    pools(engine, ranks).run(act)  # type: ignore[arg-type]


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

    assert spawn(rank, 2, engine=engine, threads=engine == "reference") == [6000.0, 6000.0]


def test_ranks_that_ask_for_different_arrays_are_told(engine: str) -> None:
    def rank(comm: Communicator) -> str:
        try:
            comm.empty(3 + comm.rank)
        except RuntimeError as error:
            return str(error)
        return ""

    for said in spawn(rank, 2, engine=engine, threads=engine == "reference", timeout_s=10):
        assert "rank 1 came for an array of shape (4,) of float32" in said
        assert "rank 0 for an array of shape (3,) of float32" in said
