"""Collectives that are started and not waited for."""

from __future__ import annotations

import numpy as np
import pytest

from ringtree import Poisoned, Work
from ringtree.runtime.communicator.communicator import Communicator
from tests.runtime.conftest import Pools


def results(comm: Communicator) -> None:
    n = comm.size
    works = [comm.all_reduce(np.full(2000, i, np.float32), async_op=True) for i in range(10)]
    assert all(isinstance(w, Work) for w in works)
    assert comm.all_reduce(1) == n  # after all that are pending
    assert all(w.done() for w in works)
    for i, work in enumerate(works):
        assert work.wait() is True
        assert (work.result() == i * n).all()
    out = np.empty((n, 3))
    assert comm.all_gather(np.ones(3), out=out, async_op=True).result() is out
    assert comm.barrier(async_op=True).result() is None
    x = np.full(5, comm.rank)
    assert comm.broadcast(x, n - 1, async_op=True).result() is x
    gathered = comm.gather(x, async_op=True).result()
    assert (gathered is None) == (comm.rank != 0)


def forgotten(comm: Communicator) -> None:
    """Arrays of calls that nobody holds on to live until the calls are done."""
    for i in range(20):
        comm.all_reduce(np.full(50_000, float(i)), async_op=True)
    assert comm.all_reduce(2.0) == 2.0 * comm.size


def late(comm: Communicator) -> None:
    """Rank 0 comes when the others have looked."""
    if comm.rank == 0:
        for other in range(1, comm.size):
            comm.recv(np.zeros(1), other)
    work = comm.all_reduce(np.ones(3), async_op=True)
    if comm.rank:
        assert not work.done()
        assert work.wait(0.01) is False
        assert work.wait(-1) is False  # the time has passed
        comm.send(np.ones(1), 0)
    assert work.wait(60) is True
    assert work.done()
    comm.barrier()


@pytest.mark.parametrize("act", [results, forgotten, late])
def test_work(pools: Pools, engine: str, act: object) -> None:
    pools(engine, 3).run(act)  # type: ignore[arg-type]


def closed_before_it_ended(comm: Communicator) -> None:
    """A loop over `done` ends, and the wait after it has the error, be the call still queued or already waiting."""
    with comm.duplicate() as other:
        if comm.rank == 0:
            work = other.all_reduce(np.ones(3), async_op=True)
            assert not work.done()
            other.close()
            assert work.done()
            with pytest.raises(Poisoned, match=r"closed (before the call was done|its group while in all_reduce)"):
                work.wait()
    comm.barrier()


def test_a_work_of_a_closed_group_has_ended(pools: Pools) -> None:
    pools("shm", 2).run(closed_before_it_ended)
