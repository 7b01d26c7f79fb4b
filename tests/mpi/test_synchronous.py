"""Synchronous sends, which end when a receive has taken the message, and matched probes."""

from __future__ import annotations

import time
from typing import Any

import pytest

import ringtree
from ringtree import mpi as MPI
from tests.mpi.tables import Row, check, ints


def to_self(comm: MPI.Comm) -> Any:
    """Not done at the probe, done after the receive."""
    request, got = comm.Issend(ints(7), comm.rank, 123), ints(0)
    comm.Probe(comm.rank, 123)
    before = request.Test()
    comm.Recv(got, comm.rank, 123)
    request.Wait()
    return [before, int(got[0])]


def to_a_peer(comm: MPI.Comm) -> Any:
    """The message has arrived, for the peer has probed it and reports it; a receive has not taken it yet."""
    peer = comm.rank ^ 1
    if peer >= comm.size:
        return [False, True]
    for size in (1, 100_000):
        x = ints(*range(size))
        if comm.rank % 2:
            comm.Probe(peer, 1)
            comm.send("probed", peer, 2)
            comm.recv(source=peer, tag=3)
            comm.Recv(x, peer, 1)
        else:
            request = comm.Issend(x, peer, 1)
            comm.recv(source=peer, tag=2)
            time.sleep(0.02)
            if request.Test():
                return [True, True]
            comm.send("not yet", peer, 3)
            request.Wait()
    return [False, True]


def in_order(comm: MPI.Comm) -> Any:
    """Two of one tag, and one of another that is received first."""
    begun = [comm.issend(text, comm.rank, tag) for text, tag in (("a", 1), ("b", 1), ("c", 2))]
    last = comm.recv(source=comm.rank, tag=2)
    while not begun[2].Test():
        pass
    first = [comm.recv(source=comm.rank, tag=1)]
    while not begun[0].Test():
        pass
    waiting = begun[1].Test()
    first.append(comm.recv(source=comm.rank, tag=1))
    begun[1].wait()
    return [last, first, waiting]


def taken(comm: MPI.Comm) -> Any:
    """A message that Mprobe found is no other receive's."""
    comm.send("one", comm.rank, 5)
    comm.send("two", comm.rank, 5)
    message = comm.mprobe(comm.rank, 5)
    other = comm.recv(source=comm.rank, tag=5)
    return [other, message.recv(), bool(message), comm.improbe(comm.rank, 5)]


ROWS: list[Row] = [
    ("to self", to_self, lambda r, n: [False, 7]),
    ("to a peer", to_a_peer, lambda r, n: [False, True]),
    ("in order", in_order, lambda r, n: ["c", ["a", "b"], False]),
    ("taken", taken, lambda r, n: ["two", "one", False, None]),
]


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_synchronous(ranks: int) -> None:
    check(ROWS, ranks)


def test_a_tag_that_has_no_answer() -> None:
    def work(comm: ringtree.Communicator) -> None:
        with pytest.raises(ValueError, match="tag 1073741824 of a synchronous send"):
            comm.issend(ints(1), 0, 1 << 30)

    ringtree.spawn(work, 1)
