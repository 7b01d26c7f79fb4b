"""Communicators that are freed while calls on them are under way: the calls end as they would have."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ringtree
from ringtree import mpi as MPI
from ringtree.mpi.leaving import close_unused, freed
from tests.mpi.tables import Row, check, ints
from tests.waiting import until

MANY = 1 << 18
"""Elements of a message that no lane holds."""


def all_left() -> bool:
    """Whether nothing that was freed is in use."""
    close_unused()
    return not freed


def is_null(comm: MPI.Comm) -> bool:
    """Whether a communicator is null, and calls on it are refused by MPI's error class."""
    with pytest.raises(MPI.Exception, match="COMM_NULL") as caught:
        comm.Isend(b"", 0)
    return comm == MPI.COMM_NULL and caught.value == MPI.ERR_COMM


def in_turns(comm: MPI.Comm, call: Callable[[MPI.Comm], MPI.Request], made: MPI.Comm | None = None) -> Any:
    """Rank by rank starts a call on a communicator and frees it, before the next begins; then all wait."""
    other = made or comm.Dup()
    if comm.rank:
        comm.recv(source=comm.rank - 1)
    request = call(other)
    other.Free()
    assert is_null(other)
    if comm.rank + 1 < comm.size:
        comm.send("next", comm.rank + 1)
    found = request.wait()
    del request
    return [found, len(freed)]


def messages(comm: MPI.Comm) -> Any:
    """Every rank receives from the one behind it, which begins later."""
    room = np.full(MANY, -1)

    def call(other: MPI.Comm) -> MPI.Request:
        right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
        return other.Isendrecv(np.full(MANY, comm.rank), left, 3, room, right, 3)

    return [*in_turns(comm, call), int(room.min()), int(room.max())]


def reduced(comm: MPI.Comm) -> Any:
    out = ints(-1)
    return [*in_turns(comm, lambda other: other.Iallreduce(ints(comm.rank), out)), out]


def seen_late(comm: MPI.Comm) -> Any:
    """A collective that has ended keeps nothing open, and its request still knows that it has."""
    other, out = comm.Dup(), ints(-1)
    request = other.Iallreduce(ints(comm.rank), out)
    other.Free()
    until(all_left)
    return [request.Get_status(), request.Wait(), out]


def uneven(comm: MPI.Comm) -> Any:
    out, ones = np.full(comm.size, -1, np.int32), [1] * comm.size
    x = np.arange(comm.size, dtype=np.int32) + 10 * comm.rank
    return [*in_turns(comm, lambda other: other.Ialltoallv([x, ones], [out, ones])), out]


def between_neighbours(comm: MPI.Comm) -> Any:
    out = ints(-1, -1)
    ring = comm.Create_cart([comm.size], [True])
    return [*in_turns(comm, lambda other: other.Ineighbor_allgather(ints(comm.rank), out), ring), out]


def between_groups(comm: MPI.Comm) -> Any:
    """Rank 0 and the others."""
    ours = comm.Split(int(comm.rank > 0))
    inter = ours.Create_intercomm(0, comm, 0 if comm.rank else 1)
    ours.Free()
    return in_turns(comm, lambda other: other.irecv(source=0) if comm.rank == 0 else other.isend(comm.rank, 0), inter)


def matched(comm: MPI.Comm) -> Any:
    """A matched message is this rank's already."""
    other = comm.Dup()
    sent = other.isend([comm.rank], comm.rank, 4)
    message = other.Mprobe(comm.rank, 4)
    other.Free()
    found = message.recv()
    sent.wait()
    return [found, len(freed)]


def started_again(comm: MPI.Comm) -> Any:
    """Persistent requests are started after their communicator was freed, which is left when both are."""
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    other, out, room, total = comm.Dup(), ints(0), ints(-1), ints(-1)
    requests = [other.Recv_init(room, left), other.Send_init(out, right), other.Allreduce_init(out, total)]
    group, seen = other._comm, []
    other.Free()
    for turn in range(2):
        out[0] = 10 * turn + comm.rank
        MPI.Prequest.Startall(requests)
        MPI.Request.Waitall(requests)
        seen.append([int(room[0]), int(total[0])])
    group.check_liveness("the test")
    again = MPI.Prequest(requests[2])
    for request in requests:
        request.Free()
    group.check_liveness("the test")
    assert again != requests[2] and len(freed) == 1
    again.Free()
    with pytest.raises(RuntimeError, match="closed"):
        group.check_liveness("the test")
    return [seen, len(freed)]


def dropped(comm: MPI.Comm) -> Any:
    """Nobody waits for these sends. They arrive, and what they were sent on does not stay open."""
    if comm.rank:
        others = [comm.Dup() for _ in range(3)]
        sums = []
        for other in others:
            room = np.zeros(MANY, int)
            other.Recv(room, 0)
            sums.append(int(room.min()))
            other.Free()
        comm.Barrier()
        return [sums, len(freed)]
    for number in range(3):
        _send_and_free(comm.Dup(), number)
    comm.Barrier()
    until(all_left)
    return [None, len(freed)]


def _send_and_free(other: MPI.Comm, number: int) -> None:
    for rank in range(1, other.size):
        other.Bsend(np.full(MANY, number), rank)
    other.Free()


def disconnected(comm: MPI.Comm) -> Any:
    """Disconnect waits for a receive, whose message the next rank sends when it likes."""
    other, room = comm.Dup(), ints(-1)
    if comm.rank == 0:
        request = other.Irecv(room, 1)
        comm.send("begun", 1)
        other.Disconnect()
        assert is_null(other) and room == 7
        request.Wait()
    else:
        if comm.rank == 1:
            comm.recv(source=0)
            other.Send(ints(7), 0)
        other.Disconnect()
    return len(freed)


ROWS: list[Row] = [
    ("messages", messages, lambda r, n: [None, 0, (r + 1) % n, (r + 1) % n]),
    ("reduced", reduced, lambda r, n: [None, 0, [n * (n - 1) // 2]]),
    ("seen late", seen_late, lambda r, n: [True, True, [n * (n - 1) // 2]]),
    ("uneven", uneven, lambda r, n: [None, 0, [10 * s + r for s in range(n)]]),
    ("between neighbours", between_neighbours, lambda r, n: [None, 0, [(r - 1) % n, (r + 1) % n]]),
    ("between groups", between_groups, lambda r, n: [None if r else 1, 0]),
    ("matched", matched, lambda r, n: [[r], 0]),
    (
        "started again",
        started_again,
        lambda r, n: [[[10 * t + (r - 1) % n, 10 * t * n + n * (n - 1) // 2] for t in range(2)], 0],
    ),
    ("dropped", dropped, lambda r, n: [[0, 1, 2] if r else None, 0]),
    ("disconnected", disconnected, lambda r, n: 0),
]


@pytest.mark.parametrize("ranks", [2, 3])
def test_calls_end_after_their_communicator_was_freed(ranks: int) -> None:
    check(ROWS, ranks)


def test_a_disconnect_waits_no_longer_than_the_groups_timeout() -> None:
    comm = MPI.COMM_SELF.Dup()
    group = comm._comm
    group.set_timeout(0.2)
    request = comm.Irecv(bytearray(1), 0)
    with pytest.raises(MPI.Exception, match=r"waited 0\.2 s"):
        comm.Disconnect()
    assert comm and request
    del request
    group.close()


def test_what_fails_after_a_free_has_its_error_and_is_left() -> None:
    def work(comm: ringtree.Communicator) -> Any:
        world = MPI.Intracomm(comm)
        other = world.Dup()
        if comm.rank == 0:
            world.recv(source=1)
            other._comm.abort("for the test")
            return None
        request, reduced = other.Irecv(bytearray(1), 0), other.Iallreduce(ints(1), ints(0))
        other.Free()
        world.send("freed", 0)
        with pytest.raises(MPI.Exception, match="for the test") as caught:
            request.Wait()
        code = caught.value.Get_error_class()
        del request, reduced, caught
        gc.collect()  # of the error's frames
        until(all_left)  # the sum hears of the abort a moment later
        return [code, len(freed)]

    assert ringtree.spawn(work, 2, timeout_s=60)[1] == [MPI.ERR_REVOKED, 0]


@pytest.mark.parametrize("known", [False, True], ids=["before the error", "after the error"])
def test_an_error_of_a_freed_communicator_is_none_of_another(known: bool) -> None:
    """Its collective has other counts on the ranks; a message on the world ends all the same, and is received."""

    def work(comm: ringtree.Communicator) -> Any:
        world, count = MPI.Intracomm(comm), 4 + 4 * comm.rank
        other = world.Dup()
        request = other.Iallreduce(np.ones(count), np.zeros(count))
        if known:
            until(lambda: not other._groups()[-1]._in_use())
        other.Free()
        received = world.irecv(source=1 - comm.rank)
        world.send(["from", comm.rank], 1 - comm.rank)
        found = received.wait()
        world.Dup().Free()
        with pytest.raises(MPI.Exception, match="all_reduce"):
            request.Wait()
        return found

    assert ringtree.spawn(work, 2, timeout_s=60) == [["from", 1], ["from", 0]]
