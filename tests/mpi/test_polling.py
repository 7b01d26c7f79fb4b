"""Probes that do not wait, of communicators that the other ranks have left."""

from __future__ import annotations

import time
from typing import Any

import pytest

import ringtree
from ringtree import mpi as MPI
from tests.mpi.tables import Row, check

SOON_S = 3.0
"""Ten times the timeout."""


def left_alone(comm: MPI.Comm, other: MPI.Comm) -> bool:
    """Whether this is rank 0, once the others have left `other`."""
    if comm.rank:
        other.Free()
        comm.send("freed", 0)
        return False
    for rank in range(1, comm.size):
        comm.recv(source=rank)
    return True


def freed_by_the_others(comm: MPI.Comm) -> Any:
    """No message is there: the communicator still serves its last rank."""
    other = comm.Dup()
    if not left_alone(comm, other):
        return None
    seen = [other.Iprobe(), other.Iprobe(1), other.iprobe(MPI.ANY_SOURCE, 4), other.improbe(), other.Improbe(1)]
    sent = other.isend("to myself", 0, 4)
    found = [other.Iprobe(), other.recv(source=0, tag=4)]
    sent.wait()
    other.Free()
    return [seen, found]


def sent_before(comm: MPI.Comm) -> Any:
    """What a rank has sent before it left is found."""
    other = comm.Dup()
    if comm.rank:
        other.send(comm.rank, 0)
    if not left_alone(comm, other):
        return None
    heard = []
    while other.Iprobe():
        heard.append(other.recv())
    other.Free()
    return sorted(heard)


def between_groups(comm: MPI.Comm) -> Any:
    inter = comm.Split(int(comm.rank > 0)).Create_intercomm(0, comm, 0 if comm.rank else 1)
    if not left_alone(comm, inter):
        return None
    seen = [inter.Iprobe(), inter.Iprobe(0), inter.improbe()]
    inter.Free()
    return seen


ROWS: list[Row] = [
    (
        "freed by the others",
        freed_by_the_others,
        lambda r, n: None if r else [[False, False, False, None, None], [True, "to myself"]],
    ),
    ("sent before", sent_before, lambda r, n: None if r else list(range(1, n))),
    ("between groups", between_groups, lambda r, n: None if r else [False, False, None]),
]


@pytest.mark.parametrize("ranks", [2, 3])
def test_nobody_is_left_to_send(ranks: int) -> None:
    check(ROWS, ranks)


def polled(comm: MPI.Comm) -> MPI.Exception:
    """The error that ends a row of probes."""
    with pytest.raises(MPI.Exception) as caught:
        while not comm.Iprobe():
            time.sleep(0.001)
    return caught.value


def test_polls_in_vain_end_with_the_groups_timeout() -> None:
    def work(comm: ringtree.Communicator) -> Any:
        world = MPI.Intracomm(comm)
        other = world.Dup()
        if not left_alone(world, other):
            return None
        other._comm.set_timeout(0.3)
        since = time.monotonic()
        error = polled(other)
        return [error.Get_error_class(), "left the group" in str(error), 0.3 < time.monotonic() - since < SOON_S]

    assert ringtree.spawn(work, 2, timeout_s=60)[0] == [MPI.ERR_PROC_FAILED, True, True]


def test_a_rank_that_left_by_an_error_is_named_at_once() -> None:
    def work(comm: ringtree.Communicator) -> Any:
        world = MPI.Intracomm(comm)
        other = world.Dup()
        if comm.rank:
            other._comm._tell_cause(RuntimeError("a failure for the test"))
        return str(polled(other)) if left_alone(world, other) else None

    assert "a failure for the test" in ringtree.spawn(work, 2, timeout_s=60)[0]
