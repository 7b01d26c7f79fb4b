"""Epochs of windows in which an access fails, or of which a rank has no part."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import ringtree
from ringtree import mpi as MPI
from ringtree.mpi.groups.group import Group


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
