"""Messages that are begun and waited for later: wildcards, probes, progress, and the lifetime of their arrays."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ringtree import ANY, TimedOut, Work, wait_all, wait_any
from ringtree.runtime.communicator.communicator import Communicator
from tests.runtime.conftest import Pools

BIG = 3_000_000


def overtaking(comm: Communicator) -> None:
    """In both directions at once, far more than fits any buffer, and done in the other order."""
    peer = 1 - comm.rank
    into = [np.empty(n) for n in (BIG // 8, 3, 0)]
    receives = [comm.irecv(y, peer, tag) for tag, y in enumerate(into)]
    sends = [comm.isend(np.full(len(y), float(comm.rank)), peer, tag) for tag, y in enumerate(into)]
    assert all(isinstance(m, Work) for m in receives + sends)
    assert wait_all(receives[::-1] + sends) is True
    for tag, (y, m) in enumerate(zip(into, receives, strict=True)):
        assert (y == peer).all()
        assert m.result() is y
        assert (m.source, m.tag, m.nbytes) == (peer, tag, y.nbytes)
    assert all(m.done() and m.wait(0) and m.result() is None for m in sends)


def progress_in_a_collective(comm: Communicator) -> None:
    """Rank 1 comes to the barrier when it has the message, rank 0 sends it while it waits there."""
    x = np.full(BIG, comm.rank, np.uint8)
    if comm.rank == 0:
        sent = comm.isend(x, 1)
        comm.barrier()
        assert sent.wait()
    else:
        assert (comm.recv(x, 0) == 0).all()
        comm.barrier()


def progress_of_another_group(comm: Communicator) -> None:
    """The message is the one group's, the wait the other's."""
    other = comm.split(0)
    assert other is not None
    with other:
        x = np.full(BIG, comm.rank, np.uint8)
        if comm.rank == 0:
            sent = other.isend(x, 1)
            assert comm.recv(np.zeros(1), 1) == 5
            assert sent.wait()
        else:
            assert (other.recv(x, 0) == 0).all()
            comm.send(np.full(1, 5.0), 0)
        comm.barrier()


def progress_of_a_receive(comm: Communicator) -> None:
    if comm.rank == 0:
        comm.send(np.arange(BIG), 1, 3)
        comm.barrier()
    else:
        y = np.empty(BIG, np.int64)
        message = comm.irecv(y, ANY, ANY)
        comm.barrier()
        assert (message.result() == np.arange(BIG)).all()
        assert (message.source, message.tag) == (0, 3)


def wildcards(comm: Communicator) -> None:
    """The earlier message is received first, by source or by wildcard."""
    if comm.rank == 0:
        comm.barrier()
        for tag, value in ((7, 1), (8, 2), (7, 3), (9, 4)):
            comm.send(np.array([value]), 1, tag)
    else:
        into = np.zeros(4, np.int64)
        wanted = [(ANY, 8), (0, 7), (ANY, ANY), (0, ANY)]
        messages = [comm.irecv(into[i : i + 1], *w) for i, w in enumerate(wanted)]
        comm.barrier()
        assert wait_all(messages)
        assert into.tolist() == [2, 1, 3, 4]
        assert [m.tag for m in messages] == [8, 7, 7, 9]
    comm.barrier()


def kept_messages(comm: Communicator) -> None:
    """The same for messages that came before anyone asked."""
    if comm.rank == 0:
        for tag, value in ((7, 1), (8, 2), (7, 3), (9, 4)):
            comm.send(np.array([value]), 1, tag)
        comm.send(np.empty(0, np.int64), 1, 10)
    else:
        assert comm.probe(tag=10) == (0, 10, 0)
        assert comm.probe() == (0, 7, 8)
        assert comm.iprobe(0, 8) == (0, 8, 8)
        assert comm.iprobe(0, 11) is None
        one = np.zeros(1, np.int64)
        assert [int(comm.recv(one, *w)[0]) for w in ((ANY, 8), (0, 7), (ANY, ANY), (0, ANY))] == [2, 1, 3, 4]
        assert comm.recv(np.empty(0, np.int64), tag=10).size == 0
    comm.barrier()


def probing_a_long_one(comm: Communicator) -> None:
    """A probe finds a message that has begun; its remaining pieces go to its receive."""
    if comm.rank == 0:
        comm.send(np.arange(BIG), 1, 4)
    else:
        status = comm.probe(ANY, ANY)
        assert status == (0, 4, 8 * BIG)
        assert (comm.recv(np.empty(status.nbytes // 8, np.int64), status.source, status.tag) == np.arange(BIG)).all()
    comm.barrier()


def shorter_messages(comm: Communicator) -> None:
    if comm.rank == 0:
        for n in (3, 0, 10):
            comm.send(np.arange(n, dtype=np.float32), 1, n)
        comm.send(np.arange(6, dtype=np.float32), 1, 20)
    else:
        y = np.full((2, 5), -1, np.float32)
        got = comm.recv(y, 0, 3, at_most=True)
        assert got.tolist() == [0, 1, 2]
        assert np.shares_memory(got, y)
        assert y.ravel().tolist() == [0, 1, 2, *[-1] * 7]
        assert comm.recv(y, ANY, 20, at_most=True).size == 6  # overtakes the two that are kept
        assert comm.recv(y, 0, 10, at_most=True).tolist() == list(range(10))
        message = comm.irecv(y, 0, ANY, at_most=True)
        assert message.result().size == 0
        assert (message.tag, message.nbytes) == (0, 0)
    comm.barrier()


def to_oneself(comm: Communicator) -> None:
    me, x, y = comm.rank, np.arange(BIG), np.empty(BIG, np.int64)
    early = comm.irecv(y, ANY, 2)
    assert not early.done()
    comm.isend(x, me, 2)
    assert (early.result() == x).all()
    comm.send(np.zeros(0), me)
    assert comm.probe(me) == (me, 0, 0)
    comm.recv(np.zeros(0), me)
    assert comm.sendrecv(x, me, np.zeros_like(x), me)[-1] == x[-1]
    comm.send_object({"a": [1, "b"]}, me, 3)
    assert comm.recv_object(tag=3) == {"a": [1, "b"]}


def sendrecv_around(comm: Communicator) -> None:
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    x, y = np.full(BIG, comm.rank, np.uint8), np.empty(BIG, np.uint8)
    assert comm.sendrecv(x, right, y, left) is y
    assert (y == left).all()
    comm.sendrecv(x[:5], right, y[:5], ANY, comm.rank, left)
    assert (y[:5] == left).all()


def copies(comm: Communicator) -> None:
    for src, dst in ((0, 1), (1, 0), (1, 1)):
        x = np.arange(6.0).reshape(2, 3) + comm.rank
        got = comm.copy(x, src, dst)
        assert (got is None) == (comm.rank != dst)
        out = np.zeros(6)
        returned = comm.copy(x, src, dst, out)
        if comm.rank == dst:
            assert got.tolist() == (np.arange(6.0).reshape(2, 3) + src).tolist()
            assert returned is out
            assert out.tolist() == got.ravel().tolist()
    assert comm.iprobe() is None
    comm.barrier()


def objects(comm: Communicator) -> None:
    """Several threads receive from any rank, and none gets half of what another probed."""
    sent = [{"from": comm.rank, "number": i, "load": b"x" * (i * 40_000)} for i in range(6)]
    if comm.rank == 1:
        got: list[Any] = []
        threads = [
            threading.Thread(target=lambda: got.extend(comm.recv_object(ANY, ANY) for _ in range(2))) for _ in range(3)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(o["number"] for o in got) == list(range(6))
        assert all(len(o["load"]) == 40_000 * o["number"] for o in got)
    elif comm.rank == 0:
        for i, one in enumerate(sent):
            comm.send_object(one, 1, i % 2)
    comm.barrier()


def whichever(comm: Communicator) -> None:
    """Messages and collectives in one list; each is named when it ends."""
    if comm.rank == 0:
        slow, fast = comm.irecv(np.zeros(1), 1, 1), comm.irecv(np.zeros(1), 1, 2)
        assert wait_any([slow, fast]) == 1
        assert wait_any([slow, fast]) == 1
        with pytest.raises(TimedOut, match=r"none of 1 works and messages ended within 0\.01 s"):
            wait_any([slow], 0.01)
        assert wait_all([fast, slow], 0.01) is False
        everyone = comm.barrier(async_op=True)
        with pytest.raises(TimedOut, match="none of 2"):
            wait_any([slow, everyone], 0.01)
        comm.send(np.zeros(1), 1, 3)
        assert wait_any([slow, everyone]) == 1
        comm.send(np.zeros(1), 1, 3)
        assert wait_any([slow, comm.irecv(np.zeros(1), 1, 4)]) == 0
        assert wait_all([slow, everyone, fast]) is True
    else:
        comm.send(np.zeros(1), 0, 2)
        comm.recv(np.zeros(1), 0, 3)
        comm.barrier()
        comm.recv(np.zeros(1), 0, 3)
        comm.send(np.zeros(1), 0, 1)
        comm.send(np.zeros(1), 0, 4)
        time.sleep(0.02)
    comm.barrier()
    while comm.iprobe() is not None:
        comm.recv(np.zeros(1), tag=4)


def forgotten(comm: Communicator) -> None:
    """Nobody holds the messages, nor their arrays; they arrive all the same, and harm nobody."""
    peer = 1 - comm.rank
    for i in range(20):
        comm.irecv(np.empty(50_000), peer, i)
        comm.isend(np.full(50_000, float(i)), peer, i)
    gc.collect()
    spare = [np.full(50_000, 7.0) for _ in range(20)]
    comm.barrier()
    for _ in range(40):
        comm.isend(np.zeros(1), peer, 99)
        comm.recv(np.zeros(1), peer, 99)
    comm.barrier()
    assert all((x == 7).all() for x in spare)
    kept = comm._mail._kept
    comm.isend(np.zeros(1), comm.rank).wait()
    comm.recv(np.zeros(1), comm.rank)
    assert len(kept) <= 10, "what is done is let go of"


def never_waited_for(comm: Communicator) -> None:
    """A call that begins messages moves those begun before, and releases the finished ones."""
    if comm.rank:
        for i in range(60):
            assert comm.recv(np.zeros(5), 0, 98)[0] == i
    else:
        before = len(comm._mail._kept)
        for i in range(60):
            comm.isend(np.full(5, float(i)), 1, 98)
        enough = before * 3 // 2 + 4  # among many that never end, half as many again may wait to be let go of
        while len(comm._mail._kept) > enough:  # else the test never ends
            comm.irecv(np.zeros(1), 0, 97)
            comm.isend(np.zeros(1), 0, 97)
            time.sleep(0.001)
    comm.barrier()


def many_threads(comm: Communicator) -> None:
    """Each pair of threads has a tag of its own, and all of them are here at once."""
    peer = 1 - comm.rank

    def talk(tag: int) -> None:
        for i in range(15):
            x = np.full(1 + 3000 * i, tag + i, np.int32)
            sent, y = comm.isend(x, peer, tag), np.empty_like(x)
            comm.irecv(y, ANY, tag).wait() if i % 2 else comm.recv(y, peer, tag)
            assert (y == x).all(), f"tag {tag}, message {i}"
            assert sent.wait()
            done.append(tag)

    done: list[int] = []
    threads = [threading.Thread(target=talk, args=(tag,)) for tag in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(done) == 60
    comm.barrier()


def given_up(comm: Communicator) -> None:
    """A wait that ends early leaves the message under way."""
    message = comm.irecv(np.zeros(1), 1 - comm.rank)
    assert message.wait(0.05) is False
    comm.barrier()
    comm.send(np.full(1, 5.0), 1 - comm.rank)
    assert message.result() == 5


def several_in_one_work(comm: Communicator) -> None:
    """A Work that stands for several stands in a list of works as any other does."""
    peer, y = 1 - comm.rank, np.zeros(3)
    outs = [np.zeros(2) for _ in range(2)]
    works = [comm.issend(np.ones(3), peer, 4), comm.irecv(y, peer, 4)]
    works.append(comm.exchange_parts([np.full(2, 5.0 + rank) for rank in range(2)], outs, async_op=True))
    assert all(isinstance(w, Work) for w in works)
    while works:
        works.pop(wait_any(works))
    assert (y == 1).all()
    assert (np.array(outs) == 5.0 + comm.rank).all()
    assert wait_all([comm.issend(y, comm.rank, 4), comm.irecv(np.zeros(3), comm.rank, 4)]) is True


ACTS = [
    overtaking, progress_in_a_collective, progress_of_another_group, progress_of_a_receive, wildcards, kept_messages,
    probing_a_long_one, shorter_messages, to_oneself, sendrecv_around, copies, objects, whichever, forgotten,
    never_waited_for, many_threads, given_up, several_in_one_work,
]  # fmt: skip


@pytest.mark.parametrize("act", ACTS)
def test_nonblocking(pools: Pools, engine: str, act: Callable[[Communicator], None]) -> None:
    pools(engine, 2).run(act)


@pytest.mark.parametrize("act", [to_oneself])
def test_a_rank_alone_may_write_to_itself(pools: Pools, engine: str, act: Callable[[Communicator], None]) -> None:
    pools(engine, 1).run(act)


def from_any(comm: Communicator) -> None:
    """Many write to one, who takes them as they come; from each they come in order."""
    if comm.rank:
        for i in range(30):
            comm.isend(np.array([comm.rank, i]), 0, i % 3)
        comm.recv(np.zeros(1), 0)
    else:
        seen: dict[int, list[int]] = {}
        for _ in range(30 * (comm.size - 1)):
            message = comm.irecv(np.zeros(2, np.int64), ANY, ANY)
            rank, i = message.result()
            assert message.source == rank
            assert message.tag == i % 3
            seen.setdefault(int(rank), []).append(int(i))
        assert seen == {rank: list(range(30)) for rank in range(1, comm.size)}
        for rank in range(1, comm.size):
            comm.send(np.zeros(1), rank)
    comm.barrier()


def test_any_source_keeps_the_order_of_each(pools: Pools, engine: str) -> None:
    pools(engine, 4).run(from_any)
