"""Messages move on while the program computes and never calls us; and nothing burns a core for it."""

from __future__ import annotations

import threading
import time

import numpy as np

from ringtree import spawn
from ringtree.runtime.communicator.communicator import Communicator

BIG = 1 << 26  # bytes, far more than pipes hold


def compute(seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        sum(range(100))


def away(comm: Communicator, who: int) -> float:
    """Rank `who` calls nothing before the other, which waits, has written that it is done. How long it was away."""
    told = comm.empty(1)
    x = np.full(BIG, comm.rank, np.uint8)
    comm.barrier()
    message = comm.isend(x, 1) if comm.rank == 0 else comm.irecv(x, 0)
    begun = time.monotonic()
    if comm.rank == who:
        while told[0] == 0 and time.monotonic() < begun + 15:
            compute(0.01) if who else time.sleep(0.01)
    else:
        message.wait()
        comm.put(np.ones(1, told.dtype), who, told)
    took_s = time.monotonic() - begun
    assert message.wait()
    assert (x == 0).all()
    comm.barrier()
    return took_s


def test_a_message_moves_while_its_sender_sleeps() -> None:
    assert max(spawn(away, 2, 0, timeout_s=30)) < 10


def test_a_message_moves_while_its_receiver_computes() -> None:
    assert max(spawn(away, 2, 1, timeout_s=30)) < 10


def both_away(comm: Communicator) -> float:
    x = np.full(BIG, comm.rank, np.uint8)
    message = comm.isend(x, 1) if comm.rank == 0 else comm.irecv(x, 0)
    begun = time.monotonic()
    while x[-1] != 0 and time.monotonic() < begun + 10:
        compute(0.01)
    took_s = time.monotonic() - begun
    message.wait()
    return took_s


def test_a_message_moves_while_both_compute() -> None:
    assert spawn(both_away, 2, timeout_s=30)[1] < 8.0


def idle(comm: Communicator) -> tuple[float, int]:
    """With receives that nobody answers yet: what this process uses of a second, and its threads."""
    before = threading.active_count()
    messages = [comm.irecv(np.empty(1), 1 - comm.rank, tag) for tag in range(3)]
    messages[0].wait(0.01)
    begun = time.process_time()
    time.sleep(1.0)
    used_s = time.process_time() - begun
    comm.barrier()
    for tag in range(3):
        comm.send(np.ones(1), 1 - comm.rank, tag)
    assert all(message.wait() for message in messages)
    return used_s, threading.active_count() - before


def test_who_waits_for_nothing_uses_no_core() -> None:
    for used_s, threads in spawn(idle, 2, timeout_s=30):
        assert used_s < 0.1
        assert threads == 0  # Python's; the group's own is not one of them


def one_by_one(comm: Communicator) -> bool:
    """Small ones back and forth, of which one end is never waited for: no ring may be missed."""
    y = np.zeros(1, np.int64)
    for turn in range(300):
        if comm.rank == 0:
            comm.isend(np.array([turn]), 1)
            comm.recv(y, 1)
        else:
            message = comm.irecv(y, 0)
            until = time.monotonic() + 5
            while y[0] != turn and time.monotonic() < until:
                time.sleep(0)
            assert y[0] == turn
            message.wait()
            comm.send(y, 0)
            y[0] = -1
    return True


def test_no_ring_is_missed() -> None:
    begun = time.monotonic()
    assert spawn(one_by_one, 2, timeout_s=30) == [True, True]
    assert time.monotonic() - begun < 10
