"""Messages of buffers and of objects, wildcards, probes, statuses and requests, on real ranks."""

from __future__ import annotations

import pickle
from array import array
from typing import Any

import numpy as np
import pytest

import ringtree
from ringtree import mpi as MPI
from tests.mpi.tables import Row, check, ints
from tests.waiting import until


def around(comm: MPI.Comm) -> tuple[int, int]:
    return (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size


def ring(comm: MPI.Comm) -> Any:
    right, left = around(comm)
    got = array("i", [-1] * 3)
    comm.Sendrecv([ints(comm.rank, 5), MPI.INT], right, 1, [got, MPI.INT], left, 1)
    return got


def replace(comm: MPI.Comm) -> Any:
    right, left = around(comm)
    x, status = ints(comm.rank, comm.rank), MPI.Status()
    comm.Sendrecv_replace(x, right, 3, left, MPI.ANY_TAG, status)
    return [x, status.source, status.tag, status.Get_count(MPI.INT)]


def pingpong(comm: MPI.Comm) -> Any:
    buffer = bytearray(8)
    if comm.rank == 0:
        for size in range(9):
            comm.Send([bytes(range(8)), size, MPI.BYTE], 1, size)
    elif comm.rank == 1:
        for size in range(9):
            comm.Recv([buffer, 8, MPI.BYTE], source=0, tag=size)  # shorter messages are received
    comm.Barrier()
    return list(buffer)


def anyone(comm: MPI.Comm) -> Any:
    """Rank 0 receives from every rank, itself too, in any order."""
    request = comm.Isend(ints(comm.rank), 0, tag=10 + comm.rank)
    heard = {}
    if comm.rank == 0:
        for _ in range(comm.size):
            x, status = ints(-1, -1), MPI.Status()
            comm.Recv(x, MPI.ANY_SOURCE, MPI.ANY_TAG, status)
            assert status.Get_tag() == 10 + status.Get_source() and status.Get_count(MPI.DOUBLE) == MPI.UNDEFINED
            heard[status.source] = int(x[0])
    request.Wait()
    return sorted(heard.items())


def probed(comm: MPI.Comm) -> Any:
    right, left = around(comm)
    request, status = comm.Isend(np.arange(comm.rank + 1.0), right, 4), MPI.Status()
    assert comm.Probe(left, MPI.ANY_TAG, status)
    room = np.empty(status.Get_count(MPI.DOUBLE))
    comm.Recv(room, status.source, status.tag)
    request.wait()
    return [room, comm.Iprobe(left, 4)]


def nobody(comm: MPI.Comm) -> Any:
    status = MPI.Status()
    comm.Send(None, MPI.PROC_NULL)
    comm.Recv(None, MPI.PROC_NULL, status=status)
    comm.send("lost", MPI.PROC_NULL)
    request = comm.Irecv(None, MPI.PROC_NULL)
    assert request and request.Test() and not request
    return [status.source, status.tag, status.count, comm.recv(source=MPI.PROC_NULL)]


def window(comm: MPI.Comm) -> Any:
    right, left = around(comm)
    rooms = [ints(-1) for _ in range(6)]
    requests = [comm.Irecv(room, left, 9) for room in rooms] + [comm.Isend(ints(i), right, 9) for i in range(6)]
    statuses: list[MPI.Status] = []
    MPI.Request.Waitall(requests, statuses)
    return [rooms, [status.source for status in statuses[:6]]]


def one_by_one(comm: MPI.Comm) -> Any:
    rooms = [ints(-1) for _ in range(3)]
    requests = [comm.Irecv(room, comm.rank, tag) for tag, room in enumerate(rooms)]
    assert MPI.Request.Testany(requests) == (MPI.UNDEFINED, False) and MPI.Request.Testsome(requests) == []
    order = []
    for tag in (2, 0, 1):
        comm.Send(ints(tag), comm.rank, tag)
        order.append(MPI.Request.Waitany(requests))
    assert MPI.Request.Waitany(requests) == MPI.UNDEFINED and MPI.Request.Testall(requests)
    return [order, rooms, MPI.Request.Waitsome(requests)]


def again(comm: MPI.Comm) -> Any:
    right, left = around(comm)
    out, room, heard = ints(0), ints(-1), []
    requests = [comm.Recv_init(room, left, 5), comm.Send_init(out, right, 5)]
    for turn in range(3):
        out[0] = 10 * turn + comm.rank
        MPI.Prequest.Startall(requests)
        MPI.Request.Waitall(requests)
        heard.append(int(room[0]))
    for request in requests:
        assert request != MPI.REQUEST_NULL
        request.Free()
        assert request == MPI.REQUEST_NULL
    return heard


def buffered(comm: MPI.Comm) -> Any:
    """Both send first, more than a lane holds; what is sent may be changed at once."""
    right, left = around(comm)
    x, room = np.full(1 << 18, comm.rank), np.zeros(1 << 18, int)
    comm.Bsend(x, right)
    x[:] = -1
    comm.Recv(room, left)
    return [int(room.min()), int(room.max())]


def objects(comm: MPI.Comm) -> Any:
    right, left = around(comm)
    text, status = "x" * 5000 * comm.rank, MPI.Status()
    outgoing = comm.isend({"from": comm.rank, "text": text}, right, 2)
    got = comm.recv(source=MPI.ANY_SOURCE, tag=2, status=status)
    outgoing.wait()
    return [got["from"], len(got["text"]), status.source, comm.sendrecv([comm.rank], right, 0, None, left, 0)]


def awaited(comm: MPI.Comm) -> Any:
    right, left = around(comm)
    request = comm.irecv(source=left, tag=8)
    comm.send(("half", 0.5), right, 8)
    flag, obj = request.test()
    return obj if flag else request.wait()


ROWS: list[Row] = [
    ("ring", ring, lambda r, n: [(r - 1) % n, 5, -1]),
    ("replace", replace, lambda r, n: [[(r - 1) % n] * 2, (r - 1) % n, 3, 2]),
    ("pingpong", pingpong, lambda r, n: list(range(8)) if r == 1 else [0] * 8),
    ("anyone", anyone, lambda r, n: [(s, s) for s in range(n)] if r == 0 else []),
    ("probed", probed, lambda r, n: [list(range((r - 1) % n + 1)), False]),
    ("nobody", nobody, lambda r, n: [MPI.PROC_NULL, MPI.ANY_TAG, 0, None]),
    ("window", window, lambda r, n: [[[i] for i in range(6)], [(r - 1) % n] * 6]),
    ("one by one", one_by_one, lambda r, n: [[2, 0, 1], [[0], [1], [2]], None]),
    ("again", again, lambda r, n: [10 * turn + (r - 1) % n for turn in range(3)]),
    ("buffered", buffered, lambda r, n: [(r - 1) % n] * 2),
    ("objects", objects, lambda r, n: [(r - 1) % n, 5000 * ((r - 1) % n), (r - 1) % n, [(r - 1) % n]]),
    ("awaited", awaited, lambda r, n: ["half", 0.5]),
]


@pytest.mark.parametrize("ranks", [2, 3])
def test_messages(ranks: int) -> None:
    check(ROWS, ranks)


def test_a_message_longer_than_the_buffer_raises_truncated() -> None:
    def work(comm: ringtree.Communicator) -> Any:
        world = MPI.Intracomm(comm)
        if world.rank == 0:
            world.Isend(np.zeros(4), 1)
        with pytest.raises(MPI.Exception, match="truncat") as caught:
            world.Recv(np.zeros(3), 1 - world.rank)  # rank 0 waits here for the error: its close would raise it
        return caught.value.Get_error_class()

    assert ringtree.spawn(work, 2, timeout_s=60) == [MPI.ERR_TRUNCATE, MPI.ERR_TRUNCATE]


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda comm: comm.Send(b"", 7), MPI.ERR_RANK),
        (lambda comm: comm.Irecv(bytearray(1), 7), MPI.ERR_RANK),
        (lambda comm: comm.Send(b"", 0, tag=-5), MPI.ERR_TAG),
        (lambda comm: comm.probe(source=7), MPI.ERR_RANK),
    ],
)
def test_mistakes_have_their_class(call: Any, error: int) -> None:
    with pytest.raises(MPI.Exception) as caught:
        call(MPI.COMM_WORLD)
    assert caught.value.Get_error_class() == error


@pytest.mark.parametrize("name", ["Waitall", "waitall", "Testall", "Waitany", "Testany", "Waitsome", "Testsome"])
def test_what_is_no_request_is_refused_before_one_is_waited_for(name: str) -> None:
    begun = MPI.COMM_WORLD.Irecv(bytearray(1), 0, 77)
    with pytest.raises(TypeError, match=r"requests\[1\] is None; expected a Request"):
        getattr(MPI.Request, name)([begun, None])
    with pytest.raises(TypeError, match=r"requests\[0\] is a Request; expected a Prequest"):
        MPI.Prequest.Startall([begun])  # type: ignore[list-item]
    MPI.COMM_WORLD.Send(b"a", 0, 77)
    begun.Wait()


def test_a_persistent_request_is_started_once_at_a_time_and_raises_mpis_errors() -> None:
    comm, room = MPI.COMM_WORLD, bytearray(1)
    receive = comm.Recv_init(room, 0, 77)
    receive.Start()
    with pytest.raises(MPI.Exception, match="started already; expected Wait") as caught:
        receive.Start()
    assert caught.value.Get_error_class() == MPI.ERR_REQUEST
    comm.Send(b"a", 0, 77)
    assert receive.Wait() and room == b"a"
    with pytest.raises(MPI.Exception) as caught:
        MPI.Prequest.Startall([comm.Send_init(room, comm.size, 77)])
    assert caught.value.Get_error_class() == MPI.ERR_RANK


def test_a_status_starts_empty_and_is_copied() -> None:
    status = MPI.Status()
    assert (status.source, status.tag, status.count) == (MPI.ANY_SOURCE, MPI.ANY_TAG, 0)
    status.Set_elements(MPI.INT, 3)
    assert MPI.Status(status).Get_count(MPI.INT) == 3 and MPI.Status(status).Get_count(MPI.DOUBLE) == MPI.UNDEFINED


MIXED = MPI.Datatype.Create_struct([1, 2], [0, 8], [MPI.INT, MPI.DOUBLE.Create_vector(2, 1, 2)])
"""An int and 4 doubles: 36 bytes of a message."""
NONE = MPI.INT.Create_contiguous(0)


@pytest.mark.parametrize(
    ("kind", "nbytes", "count", "elements"),
    [
        (MPI.INT, 8, 2, 2),
        (MPI.INT, 7, MPI.UNDEFINED, MPI.UNDEFINED),
        (MPI.INT.Create_contiguous(3), 8, MPI.UNDEFINED, 2),
        (MPI.INT.Create_contiguous(3), 12, 1, 3),
        (MPI.INT.Create_contiguous(3), 13, MPI.UNDEFINED, MPI.UNDEFINED),
        (MPI.INT.Create_vector(2, 1, 3).Create_resized(0, 4), 20, MPI.UNDEFINED, 5),
        (MIXED, 72, 2, 10),
        (MIXED, 40, MPI.UNDEFINED, 6),
        (MIXED, 44, MPI.UNDEFINED, MPI.UNDEFINED),
        (MIXED, 36 + 28, MPI.UNDEFINED, 5 + 4),
        (MIXED.Create_contiguous(2).Dup(), 72 + 36 + 12, MPI.UNDEFINED, 10 + 5 + 2),
        (MPI.TWOINT, 12, MPI.UNDEFINED, 3),
        (MPI.DOUBLE_INT, 32, 2, 4),
        (NONE, 0, 0, 0),
        (NONE, 4, MPI.UNDEFINED, MPI.UNDEFINED),
        (MPI.Datatype.Create_struct([1, 2], [0, 0], [NONE, MPI.INT]), 12, MPI.UNDEFINED, 3),
    ],
)
def test_a_status_counts_whole_and_basic_elements(kind: Any, nbytes: int, count: int, elements: int) -> None:
    status = MPI.Status()
    status.count = nbytes
    assert (status.Get_count(kind), status.Get_elements(kind)) == (count, elements)
    if elements != MPI.UNDEFINED:
        status.Set_elements(kind, elements)
        assert status.count == nbytes
    with pytest.raises(TypeError, match="expected a Status"):
        MPI.Status(7)  # type: ignore[arg-type]


def test_a_refused_sendrecv_leaves_no_receive_behind() -> None:
    comm, kept, room = MPI.COMM_SELF, ints(-1), ints(-1)
    for call in (comm.Sendrecv, comm.Isendrecv):
        with pytest.raises(MPI.Exception, match=r"expected 0\.\.0"):
            call(ints(1), 9, 78, kept, 0, 78)
    for call in (comm.Sendrecv_replace, comm.Isendrecv_replace):
        with pytest.raises(MPI.Exception, match=r"expected 0\.\.0"):
            call(kept, 9, 78, 0, 78)
    comm.Sendrecv(ints(5), 0, 78, room, 0, 78)
    assert (room.tolist(), kept.tolist()) == ([5], [-1])


def test_a_persistent_request_is_true_until_it_is_freed() -> None:
    request = MPI.COMM_SELF.Recv_init(ints(-1), 0, 79)
    assert request and request != MPI.REQUEST_NULL
    assert MPI.Request.Waitany([request]) == MPI.UNDEFINED and MPI.Request.Testsome([request]) is None
    request.Free()
    assert not request and request == MPI.REQUEST_NULL


def test_the_status_of_several_requests_is_seen_without_their_end() -> None:
    comm, status, statuses = MPI.COMM_SELF, MPI.Status(), list[MPI.Status]()
    of = MPI.Request
    assert (of.Get_status_all([]), of.Get_status_any([]), of.Get_status_some([])) == (True, (MPI.UNDEFINED, True), None)
    first, second = comm.irecv(source=0, tag=1), comm.irecv(source=0, tag=2)
    both = [first, second]
    seen = of.Get_status_all(both, statuses), of.Get_status_any(both, status), of.Get_status_some(both)
    assert seen == (False, (MPI.UNDEFINED, False), []) and not statuses
    comm.send("two", 0, 2)
    until(second.Get_status)
    assert of.Get_status_any([MPI.REQUEST_NULL, *both], status) == (2, True) and status.tag == 2
    assert of.get_status_some(both, statuses) == [1] and [one.tag for one in statuses] == [2]
    comm.send("one", 0, 1)
    until(lambda: of.get_status_all(both, statuses))
    assert [one.tag for one in statuses] == [1, 2] and status == statuses[1] != statuses[0]
    assert of.waitall(both) == ["one", "two"] and not any(both)


def test_an_object_of_no_bytes_is_none() -> None:
    comm = MPI.COMM_SELF
    for receive in (
        lambda: comm.recv(source=0),
        lambda: comm.recv(source=0, status=MPI.Status()),
        lambda: comm.irecv(source=0).wait(),
        lambda: comm.mprobe(0).recv(),
        lambda: comm.mprobe(0).irecv().wait(),
    ):
        sent = comm.Isend(b"", 0)
        assert receive() is None
        sent.Wait()
        sent = comm.Isend(b"no pickle", 0)
        with pytest.raises(ValueError, match="9 bytes from rank 0 with tag 0 are no object: expected one"):
            receive()
        sent.Wait()
        sent = comm.Isend(pickle.dumps(["old"], 0), 0)
        assert receive() == ["old"]
        sent.Wait()


def test_a_buf_of_recv_is_warned_of() -> None:
    sent = MPI.COMM_SELF.isend("a", 0)
    with pytest.warns(UserWarning, match="recv needs no buf") as caught:
        assert MPI.COMM_SELF.recv(bytearray(64), 0) == "a"
    assert caught[0].filename == __file__
    sent.wait()


def test_a_matched_message_of_no_bytes_is_received() -> None:
    comm, room, status = MPI.COMM_SELF, bytearray(b"ab"), MPI.Status()
    for buffer in (room, None):
        sent = comm.Isend(b"", 0, 3)
        comm.Mprobe(0, 3).Recv(buffer, status)
        sent.Wait()
        assert (status.tag, status.count, room) == (3, 0, b"ab")
