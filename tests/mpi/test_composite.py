"""A rank that is interrupted in a call of MPI that is several of the engine's leaves no group in which others go on
with the data of other calls."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
import pytest

from ringtree import Communicator, Poisoned, spawn
from ringtree import mpi as MPI
from tests.runtime.communicator.test_composite import STRIDES, Rank0, at_lines
from tests.runtime.conftest import available

pytestmark = pytest.mark.skipif(not available("shm"), reason="the native engine is not built")


def gathered(comm: Any) -> None:
    comm.Gatherv(np.ones(comm.rank + 1), [np.empty(3), [1, 2]] if comm.rank == 0 else None)


CALLS: dict[str, Callable[[Any], Any]] = {
    "Gatherv": gathered,
    "Reduce_scatter": lambda c: c.Reduce_scatter(np.ones(3), np.empty(c.rank + 1)),
    "Create_dist_graph": lambda c: c.Create_dist_graph([c.rank], [1], [1 - c.rank], MPI.UNWEIGHTED),
}


def of_mpi(call: Callable[[Any], Any]) -> Callable[[Communicator], Any]:
    """The call on a Communicator, whose errors are ringtree's again."""

    @wraps(call)
    def made(comm: Communicator) -> None:
        try:
            call(MPI.Intracomm(comm))
        except MPI.Exception as error:
            raise (error.__cause__ or error) from None

    return made


@pytest.mark.parametrize("stride", STRIDES)
@pytest.mark.parametrize("name", CALLS)
def test_an_interrupt_between_two_engine_calls_fails_the_group(name: str, stride: int) -> None:
    for wrong in spawn(at_lines, 2, of_mpi(CALLS[name]), Rank0(), stride, threads=True, timeout_s=20):
        assert wrong == []


def test_counts_that_the_root_refuses_reach_the_others_at_once() -> None:
    def work(comm: Communicator) -> str:
        world = MPI.Intracomm(comm)
        with pytest.raises(MPI.Exception) as caught:
            world.Gatherv(np.ones(9), [np.empty(9), [4, 4]] if comm.rank == 0 else None)
            world.Barrier()
        return str(caught.value)

    first, second = spawn(work, 2, timeout_s=60)
    assert first == "Gatherv: the ranks send [72, 72] bytes; expected [32, 32]"
    assert f"rank 0 failed in Gatherv: Exception: {first}" in second


def test_a_leader_that_alone_fails_in_create_intercomm_ends_it_for_its_group() -> None:
    def work(comm: Communicator) -> str:
        world = MPI.Intracomm(comm)
        with pytest.raises(MPI.Exception) as caught:
            world.Create_intercomm(0, world, 99 if comm.rank == 0 else 1, 7)
        return str(caught.value)

    mine, theirs = spawn(work, 2, timeout_s=60)
    assert mine.startswith("no rank 99")
    assert f"rank 0 failed in Create_intercomm: Exception: {mine}" in theirs


def test_a_rank_that_alone_fails_in_the_making_of_a_window_ends_it_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def work(comm: Communicator) -> str:
        if comm.rank == 1:
            monkeypatch.setattr(threading.Thread, "start", refuse)
        with pytest.raises((OSError, MPI.Exception, Poisoned)) as caught:
            MPI.Win.Allocate(8, comm=MPI.Intracomm(comm)).Fence()
        return str(caught.value)

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    theirs, mine = spawn(work, 2, timeout_s=60)
    assert "cannot start the thread of the window" in mine
    assert "rank 1 failed in the making of a window" in theirs and "cannot start the thread" in theirs
