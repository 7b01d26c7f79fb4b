"""put, get and signals: on every engine, in order, and refused where the memory is not the group's."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable

import numpy as np
import pytest

from ringtree import PeerDied, TimedOut, spawn
from ringtree.runtime.communicator.communicator import Communicator
from ringtree.runtime.engines.engine import in_threads
from tests.runtime.conftest import Pools, available

Act = Callable[[Communicator], None]


def puts_and_gets(comm: Communicator) -> None:
    n, me = comm.size, comm.rank
    w = comm.empty((n, 5), np.int64)
    other = comm.empty(3, np.float32)
    for peer in range(n):  # everybody writes its row of everyone, its own too
        comm.put(np.full(5, 10 * me + peer), peer, w[me], signal=3)
    for peer in range(n):
        comm.wait_signal(peer, index=3)
        assert (w[peer] == 10 * peer + me).all()
    comm.barrier()
    for peer in range(n):
        assert comm.get(w, peer)[:, 0].tolist() == [10 * r + peer for r in range(n)]
        out = np.zeros((2, 2), np.int64)
        assert comm.get(w[me, 1:], peer, out) is out
        assert (out == 10 * me + peer).all()
    comm.put(np.float32([1, 2]), (me + 1) % n, other[1:], 0)
    comm.wait_signal((me - 1) % n)
    assert other.tolist() == [0, 1, 2]
    large = comm.empty(100_000)
    comm.put(np.full(100_000, me, np.float32), (me + 1) % n, large, 7)
    comm.wait_signal((me - 1) % n, index=7)
    assert (large == (me - 1) % n).all()
    comm.barrier()


def counts(comm: Communicator) -> None:
    """Signals are counted per source and index; what was not waited for stays."""
    n, me = comm.size, comm.rank
    right, left = (me + 1) % n, (me - 1) % n
    for index in range(8):
        for _ in range(index + 1):
            comm.signal(right, index)
    for index in reversed(range(8)):
        if index:
            comm.wait_signal(left, count=index, index=index)
    with pytest.raises(TimedOut, match=rf"rank {me} waited 0.01 s for rank {left} in wait_signal, index 2"):
        comm.wait_signal(left, count=2, index=2, timeout=0.01)
    for index in range(8):
        comm.wait_signal(left, index=index, timeout=0 if index == 2 else None)
        with pytest.raises(TimedOut):
            comm.wait_signal(left, index=index, timeout=0)
    assert comm.all_reduce(1) == n  # time that ran out harms nobody


def several_waiters(comm: Communicator) -> None:
    """Each signal serves one waiter."""
    n, me = comm.size, comm.rank
    woken: list[int] = []

    def wait() -> None:
        for _ in range(20):
            comm.wait_signal((me - 1) % n, index=1)
            woken.append(1)

    waiters = [threading.Thread(target=wait, daemon=True) for _ in range(3)]
    for waiter in waiters:
        waiter.start()
    for _ in range(60):
        comm.signal((me + 1) % n, 1)
    for waiter in waiters:
        waiter.join()
    assert len(woken) == 60
    with pytest.raises(TimedOut):
        comm.wait_signal((me - 1) % n, index=1, timeout=0)
    comm.barrier()


@pytest.mark.parametrize("act", [puts_and_gets, counts, several_waiters])
@pytest.mark.parametrize("ranks", [1, 3])
def test_one_sided(pools: Pools, engine: str, ranks: int, act: Act) -> None:
    pools(engine, ranks).run(act)


def ping_pong(comm: Communicator, turns: int) -> None:
    """Data and signal go back and forth: a rank that sees the signal sees all data of that turn and of no later one."""
    peer = 1 - comm.rank
    sizes = (1, 7, 300, 30_000)
    window = comm.empty(max(sizes), np.int64)
    data = np.empty(max(sizes), np.int64)
    for turn in range(turns):
        size = sizes[turn % 4]
        if turn % 2 == comm.rank:
            data[:size] = turn
            comm.put(data[:size], peer, window[-size:], signal=turn % 8)
        else:
            comm.wait_signal(peer, index=turn % 8)
            assert window[-1] == turn  # at once: it is written last
            assert (window[-size:] == turn).all(), turn
    comm.barrier()


def test_data_and_signals_are_never_torn(pools: Pools, engine: str) -> None:
    pools(engine, 2).run(ping_pong, 1000 if in_threads(engine) else 3000)


@pytest.mark.skipif(not available("shm"), reason="the native engine is not built")
def test_between_threads_of_one_process() -> None:
    spawn(ping_pong, 2, 2000, engine="shm", threads=True, timeout_s=60)


def in_sub_groups(comm: Communicator) -> None:
    """A window is its own group's, and ranks are that group's."""
    pair = comm.split(comm.rank // 2, key=-comm.rank)
    assert pair is not None
    w = pair.empty(4)
    pair.put(np.full(4, comm.rank, np.float32), 1 - pair.rank, w, 0)
    pair.wait_signal(1 - pair.rank)
    assert (w == comm.rank + (-1 if comm.rank % 2 else 1)).all()
    with pytest.raises(ValueError, match="window is no memory of this group's"):
        comm.put(w, 0, w)
    pair.barrier()
    pair.close()
    with pytest.raises(RuntimeError, match="is closed"):
        pair.put(w, 0, w)
    w[:] = 5  # the memory is kept while the array is


def test_sub_groups(pools: Pools, engine: str) -> None:
    pools(engine, 4).run(in_sub_groups)


def mistakes(comm: Communicator) -> None:
    w = comm.empty(10, np.float32)
    x = np.zeros(10, np.float32)
    table: list[tuple[Callable[[], object], type[Exception], str]] = [
        (
            lambda: comm.put(x, 1, x),
            ValueError,
            "window is no memory of this group's: expected an array of its empty()",
        ),
        (lambda: comm.get(x, 1), ValueError, "window is no memory of this group's"),
        (lambda: comm.put(x[:5], 1, w[::2]), ValueError, "window is not contiguous"),
        (lambda: comm.put(x[:5], 1, w), ValueError, "x has 5 elements; expected 10, as the window has"),
        (lambda: comm.put(x.astype(int), 1, w), TypeError, "x is int64; expected float32, as the window is"),
        (lambda: comm.get(w, 1, x[:3]), ValueError, "out has 3 elements; expected 10"),
        (lambda: comm.put(x, 2, w), ValueError, "no rank 2 to reach: expected 0..1"),
        (lambda: comm.get(w, -1), ValueError, "no rank -1 to reach"),
        (lambda: comm.put(x, 1, w, 8), ValueError, "signal 8: expected 0..7"),
        (lambda: comm.signal(1, -1), ValueError, "signal -1: expected 0..7"),
        (lambda: comm.wait_signal(1, 0), ValueError, "0 signals to wait for: expected at least 1"),
        (lambda: comm.wait_signal(1, 1 << 64), ValueError, "count is 18446744073709551616; expected 64 bits at most"),
        (lambda: comm.wait_signal(1, 1.5), TypeError, "count is a float; expected a whole number"),  # type: ignore[arg-type]
        (lambda: comm.signal(None), TypeError, "rank is None; expected a whole number"),  # type: ignore[arg-type]
        (lambda: comm.put(x, 1, w, "a"), TypeError, "signal is a str; expected"),  # type: ignore[arg-type]
        (lambda: comm.wait_signal(1, timeout=-1), ValueError, "timeout is -1: expected seconds, at least 0"),
        (lambda: comm.wait_signal(1, timeout=float("nan")), ValueError, "timeout is nan"),
        (lambda: comm.wait_signal(1, timeout="a"), TypeError, "timeout is a str; expected seconds"),  # type: ignore[arg-type]
    ]
    for act, kind, expected in table:
        with pytest.raises(kind, match=re.escape(expected)):
            act()
    assert not w.any()
    assert comm.all_reduce(1) == 2


def test_mistakes_are_one_clear_line(pools: Pools, engine: str) -> None:
    pools(engine, 2).run(mistakes)


def test_a_wait_notices_departures_and_failures(engine: str) -> None:
    def rank(comm: Communicator) -> None:
        if comm.rank == 0:
            comm.signal(1)
            return
        comm.wait_signal(0)  # sent before it left
        with pytest.raises(PeerDied, match=r"rank 0 left .*rank 1 waited for .*wait_signal, index 0"):
            comm.wait_signal(0)

    spawn(rank, 2, engine=engine, threads=in_threads(engine), timeout_s=60)


@pytest.mark.skipif(not available("shm"), reason="the native engine is not built")
def test_a_group_that_is_closed_under_a_waiter() -> None:
    def rank(comm: Communicator) -> str:
        messages: list[str] = []

        def wait() -> None:
            try:
                comm.wait_signal(1 - comm.rank)
            except RuntimeError as error:
                messages.append(str(error))

        waiter = threading.Thread(target=wait)
        waiter.start()
        time.sleep(0.1)
        comm.close()
        waiter.join()
        return messages[0]

    for message in spawn(rank, 2, timeout_s=60):
        assert "wait_signal" in message
