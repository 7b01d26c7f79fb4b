"""Epochs of windows in which an access fails, of which a rank has no part, or that have no begin."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ringtree
from ringtree import mpi as MPI
from ringtree.mpi.groups.group import Group
from ringtree.runtime.observing.worlds import worlds
from tests.waiting import until


def refused_in_epochs(comm: ringtree.Communicator) -> list[str]:
    """Rank 0's access fails at rank 1, which hears of the ends of both epochs all the same."""
    ends = []

    def note(end: Callable[[], object]) -> None:
        try:
            end()
            ends.append("done")
        except MPI.Exception as error:
            ends.append("refused" if "failed there: ValueError: no attached memory" in str(error) else str(error))

    win = MPI.Win.Create_dynamic(comm=MPI.Intracomm(comm))
    if comm.rank == 0:
        win.Accumulate(np.ones(1), 1, 8)
    note(win.Fence)
    if comm.rank == 0:
        win.Start(win.Get_group().Incl([1]))
        win.Accumulate(np.ones(1), 1, 8)
        note(win.Complete)
    else:
        win.Post(win.Get_group().Incl([0]))
        note(win.Wait)
    win.Fence()
    win.Free()
    return ends


def test_an_access_that_fails_ends_its_epoch_for_all() -> None:
    assert ringtree.spawn(refused_in_epochs, 2, timeout_s=5) == [["refused"] * 2, ["done"] * 2]


def test_an_epoch_with_a_rank_that_has_no_part_in_the_window_is_refused() -> None:
    win = MPI.Win.Allocate(8, 8, comm=MPI.COMM_SELF)
    with pytest.raises(MPI.Exception, match="rank 7 of the world is not among the window's") as caught:
        win.Post(Group([7]))
    assert caught.value.Get_error_class() == MPI.ERR_RANK
    win.Free()


def begun(*begins: str) -> Callable[[Any], None]:
    """The calls that begin these epochs, all of them with rank 0."""

    def begin(win: Any) -> None:
        for name in begins:
            getattr(win, name)(*{"Lock": [0], "Post": [win.group], "Start": [win.group]}.get(name, []))

    return begin


@pytest.mark.parametrize(
    ("before", "wrong", "expected"),
    [
        (begun(), lambda win: win.Unlock(0), "expected Lock before"),
        (begun(), lambda win: win.Unlock_all(), "expected Lock_all before"),
        (begun("Lock"), lambda win: win.Unlock_all(), "expected Lock_all before"),
        (begun("Lock_all"), lambda win: win.Unlock(0), "expected Lock before"),
        (begun("Lock"), lambda win: win.Lock(0, MPI.LOCK_SHARED), "this rank has that lock"),
        (begun("Lock_all"), lambda win: win.Lock(0), "this rank has that lock"),
        (begun("Lock"), lambda win: win.Lock_all(), "this rank has a lock"),
        (begun("Lock_all"), lambda win: win.Lock_all(), "this rank has a lock"),
        (begun(), lambda win: win.Complete(), "expected Start before"),
        (begun(), lambda win: win.Wait(), "expected Post before"),
        (begun("Post"), lambda win: win.Post(win.group), "expected Wait before"),
        (begun("Post", "Start"), lambda win: win.Start(win.group), "expected Complete before"),
    ],
)
def test_an_end_without_its_begin_is_refused(
    before: Callable[[Any], None], wrong: Callable[[Any], None], expected: str
) -> None:
    win = MPI.Win.Allocate(8, 8, comm=MPI.COMM_SELF)
    before(win)
    with pytest.raises(MPI.Exception, match=expected) as caught:
        wrong(win)
    assert caught.value == MPI.ERR_RMA_SYNC
    again = MPI.Win(win)
    with pytest.raises(MPI.Exception, match=expected):
        wrong(again)
    win.Free()


@pytest.mark.parametrize("call", ["Lock", "Unlock", "Flush", "Flush_local"])
def test_a_rank_that_is_none_has_no_lock(call: str) -> None:
    win = MPI.Win.Allocate(8, 8, comm=MPI.COMM_SELF)
    with pytest.raises(MPI.Exception, match="no rank 9 in the window's group") as caught:
        getattr(win, call)(9)
    assert caught.value == MPI.ERR_RANK
    getattr(win, call)(MPI.PROC_NULL)
    win.Free()


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda win: win.Lock(0, 77), "ERR_LOCKTYPE"),
        (lambda win: win.Attach(bytearray(8)), "ERR_RMA_FLAVOR"),
        (lambda win: win.Shared_query(0), "ERR_RMA_FLAVOR"),
        (lambda win: win.Get_attr(-5), "ERR_KEYVAL"),
        (lambda _: MPI.Win.Allocate(-1), "ERR_SIZE"),
        (lambda _: MPI.Win.Create(bytearray(8), 0), "ERR_DISP"),
    ],
)
def test_mistakes_have_their_class(call: Callable[[Any], None], error: str) -> None:
    win = MPI.Win.Allocate(8, 8, comm=MPI.COMM_SELF)
    with pytest.raises(MPI.Exception) as caught:
        call(win)
    assert caught.value == getattr(MPI, error)
    win.Free()


def test_a_rank_that_is_none_has_no_shared_memory() -> None:
    win = MPI.Win.Allocate_shared(8, 8, comm=MPI.COMM_SELF)
    with pytest.raises(MPI.Exception) as caught:
        win.Shared_query(9)
    assert caught.value == MPI.ERR_RANK
    win.Free()


def idle(comm: ringtree.Communicator) -> int:
    """The number of looks at the other rank's waits, of 15, that find any."""
    win, found = MPI.Win.Allocate(8, 8, comm=MPI.Intracomm(comm)), 0
    (other,) = {*comm.all_gather(np.array([os.getpid()])).ravel().tolist()} - {os.getpid()}
    for _ in range(15):
        time.sleep(0.1)
        found += any(rank.waits for world in worlds() for rank in world.ranks if rank.pid == other)
    comm.barrier()
    win.Free()
    return found


def test_a_window_that_nobody_accesses_warns_of_nobody(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RINGTREE_WARN_SHARE", "0.5")
    assert max(ringtree.spawn(idle, 2, timeout_s=2)) < 5
    assert capfd.readouterr().err == ""


def wait_in_vain(comm: ringtree.Communicator) -> str:
    """Rank 1 gives up its wait for the lock that rank 0 has: it does not get it later, when nobody would give it
    back."""
    win, end = MPI.Win.Allocate(8, 8, comm=MPI.Intracomm(comm)), ""
    if comm.rank == 0:
        win.Lock(0)
    comm.barrier()
    if comm.rank == 1:
        with pytest.raises(MPI.Exception, match="waited 2 s"):
            win.Lock(0)
        with pytest.raises(MPI.Exception, match="expected Lock before"):
            win.Unlock(0)
        comm.send(np.zeros(1), 0)
    else:
        until(lambda: comm.iprobe(1))
        comm.recv(np.zeros(1), 1)
        win.Unlock(0)
        win.Lock(0)
        win.Unlock(0)
        end = "again"
    win.Free()
    return end


def test_a_lock_that_was_waited_for_in_vain_is_free_for_others() -> None:
    assert ringtree.spawn(wait_in_vain, 2, timeout_s=2)[0] == "again"
