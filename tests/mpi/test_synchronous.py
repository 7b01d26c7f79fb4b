"""Synchronous sends, which end when a receive has taken the message, and matched probes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

import ringtree
from ringtree import mpi as MPI
from ringtree.runtime.communicator.communicator import Communicator
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


TAKES: dict[str, Callable[[MPI.Comm], Any]] = {
    "Mprobe": lambda comm: comm.mprobe().recv(),
    "Improbe": lambda comm: (message := comm.improbe()) and message.recv(),
    "recv with a status": lambda comm: comm.recv(status=MPI.Status()),
}


@pytest.mark.parametrize("sizes", [(1, 1000), (1,)], ids=["another comes", "no other comes"])
@pytest.mark.parametrize("take", TAKES)
def test_a_thread_that_receives_beside_a_probe(take: str, sizes: tuple[int, ...]) -> None:
    """It receives once a probe has found the first message, and before that probe's receive, where there are two."""
    probed, over = threading.Event(), threading.Event()

    def paused(probe: Callable[..., Any]) -> Callable[..., Any]:
        def look(*args: Any) -> Any:
            found = probe(*args)
            if threading.current_thread() is threading.main_thread() and not probed.is_set():
                probed.set()
                over.wait()
            return found

        return look

    def work(comm: ringtree.Communicator) -> Any:
        world, got = MPI.Intracomm(comm), list[Any]()
        for size in sizes:
            world.send("x" * size, comm.rank, 5)

        def receive() -> None:
            probed.wait()
            if not got or len(sizes) > 1:
                got.append(world.recv(source=comm.rank, tag=5))
            over.set()

        Communicator.probe = paused(Communicator.probe)  # type: ignore[method-assign]
        Communicator.iprobe = paused(Communicator.iprobe)  # type: ignore[method-assign]
        rival = threading.Thread(target=receive)
        rival.start()
        if found := TAKES[take](world):
            got.append(found)
        probed.set()
        rival.join()
        return sorted(len(text) for text in got)

    assert ringtree.spawn(work, 1, timeout_s=5) == [sorted(sizes)]


def test_a_tag_that_has_no_answer() -> None:
    def work(comm: ringtree.Communicator) -> None:
        with pytest.raises(ValueError, match="tag 1073741824 of a synchronous send"):
            comm.issend(ints(1), 0, 1 << 30)

    ringtree.spawn(work, 1)
