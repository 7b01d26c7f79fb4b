"""put, get and signals between hosts: as within one, whatever the wire and the placement."""

from __future__ import annotations

import os
import signal
import threading

import numpy as np
import pytest

from ringtree.errors import PeerDied, TimedOut
from ringtree.runtime.communicator.communicator import Communicator
from tests.runtime.communicator.test_one_sided import (
    Act,
    counts,
    in_sub_groups,
    ping_pong,
    puts_and_gets,
    several_waiters,
)
from tests.runtime.hosts.conftest import HostPools, Layout, Ranks


@pytest.mark.parametrize("act", [puts_and_gets, counts, several_waiters])
@pytest.mark.parametrize("layout", [(1, 1), (2, 1)])
def test_one_sided(host_pools: HostPools, wire: str, layout: Layout, act: Act) -> None:
    host_pools(layout, wire).run(act)


def test_data_and_signals_are_never_torn(host_pools: HostPools, wire: str) -> None:
    host_pools((1, 1), wire).run(ping_pong, 1000)


def test_sub_groups(host_pools: HostPools) -> None:
    host_pools((2, 2)).run(in_sub_groups)


def large(comm: Communicator) -> None:
    """Longer than what may be under way; the array that was put changes at once."""
    count, other = 3_000_001, (comm.rank + 1) % comm.size
    window = comm.empty(count, np.float32)
    data = np.arange(count, dtype=np.float32)
    comm.put(data, other, window, signal=2)
    data[:] = -1
    comm.wait_signal(other, index=2)
    assert window[-1] == count - 1  # at once: it is sent last
    assert (window == np.arange(count, dtype=np.float32)).all()
    window[:] = comm.rank
    comm.barrier()
    assert (comm.get(window, other) == other).all()
    comm.barrier()


def test_long_arrays(host_pools: HostPools, wire: str) -> None:
    host_pools((1, 1), wire).run(large)


def by_many_threads(comm: Communicator) -> None:
    """What is under way of them all is as much as may be of one: more is nothing that the wire has room for."""
    threads, count = 64, 1 << 20
    window = comm.empty(count, np.float32)
    window[:] = comm.rank
    comm.barrier()
    outcomes: list[object] = []

    def get() -> None:
        try:
            outcomes.append(bool((comm.get(window, 1) == 1).all()))
        except RuntimeError as error:
            outcomes.append(error)

    readers = [threading.Thread(target=get) for _ in range(threads * (comm.rank == 0))]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    assert outcomes == [True] * len(readers)
    comm.barrier()


def test_many_threads_that_get_at_once(host_pools: HostPools, wire: str) -> None:
    host_pools((1, 1), wire).run(by_many_threads)


def beside_calls(comm: Communicator) -> None:
    """Puts of all lengths are behind one another and before their signals, beside collectives and messages."""
    other = (comm.rank + 1) % comm.size
    lengths = [1, 100, 600, 40_000]
    windows = [comm.empty(n, np.int64) for n in lengths]
    for turn in range(30):
        for window, n in zip(windows, lengths, strict=True):
            comm.put(np.full(n, turn), other, window)
        comm.signal(other, 5)
        assert comm.all_reduce(turn) == turn * comm.size
        comm.send(np.array([turn]), other)
        comm.wait_signal((comm.rank - 1) % comm.size, index=5)
        for window in windows:
            assert (window == turn).all()
        assert comm.recv(np.empty(1, np.int64), (comm.rank - 1) % comm.size)[0] == turn
        comm.barrier()


@pytest.mark.parametrize("layout", [(1, 1), (2, 1), (1, 1, 1)])
def test_beside_calls(host_pools: HostPools, wire: str, layout: Layout) -> None:
    host_pools(layout, wire).run(beside_calls)


def of_a_dead_rank(comm: Communicator) -> str:
    window = comm.empty(5_000_000, np.float32)
    comm.barrier()
    if comm.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        while True:
            comm.get(window, 1)
            comm.put(window, 1, window)
    except PeerDied as error:
        return str(error)


def test_access_to_a_rank_that_died_names_it(ranks: Ranks, wire: str) -> None:
    outcomes = dict(ranks((1, 1), of_a_dead_rank, wires=[wire]).finish())
    assert "rank 1 is out of reach" in outcomes[0].result, outcomes[0]


def unsignalled(comm: Communicator) -> str:
    try:
        comm.wait_signal(1 - comm.rank, timeout=0.05)
    except TimedOut as error:
        assert comm.all_reduce(1) == 2
        return str(error)
    return ""


def test_a_signal_that_does_not_come_leaves_the_group_whole(host_pools: HostPools, wire: str) -> None:
    for rank, text in enumerate(host_pools((1, 1), wire).run(unsignalled)):
        assert text.startswith(f"rank {rank} waited 0.05 s for rank {1 - rank} in wait_signal"), text
