"""Messages move on while the program computes and never calls us; and nothing burns a core for it."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import numpy as np

from ringtree import spawn
from ringtree.runtime.communicator.communicator import Communicator
from tests.waiting import Event, until

BIG = 1 << 24  # bytes, far more than pipes hold


def compute(seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        sum(range(100))


def away(comm: Communicator, who: int) -> None:
    """Rank `who` calls nothing before the other, which waits, has written that it is done."""
    flag = comm.empty(1)
    x = np.full(BIG, comm.rank, np.uint8)
    comm.barrier()
    message = comm.isend(x, 1) if comm.rank == 0 else comm.irecv(x, 0)
    if comm.rank == who:
        while flag[0] == 0:
            compute(0.01) if who else time.sleep(0.01)
    else:
        message.wait()
        comm.put(np.ones(1, flag.dtype), who, flag)
    assert message.wait()
    assert (x == 0).all()
    comm.barrier()


def test_a_message_moves_while_its_sender_sleeps() -> None:
    spawn(away, 2, 0, timeout_s=60)


def test_a_message_moves_while_its_receiver_computes() -> None:
    spawn(away, 2, 1, timeout_s=60)


def both_away(comm: Communicator, arrived: Event) -> None:
    """Neither calls anything before the last byte is there."""
    x = np.full(BIG, comm.rank, np.uint8)
    message = comm.isend(x, 1) if comm.rank == 0 else comm.irecv(x, 0)
    while not arrived.is_set():
        compute(0.01)
        if x[-1] == 0 and comm.rank == 1:
            arrived.set()
    message.wait()


def test_a_message_moves_while_both_compute() -> None:
    spawn(both_away, 2, Event(), timeout_s=60)


def others() -> dict[str, tuple[str, int]]:
    """State, and how often each has slept, of this process's other threads, also those that Python does not know."""
    found = {}
    for task in Path("/proc/self/task").iterdir():
        if int(task.name) != threading.get_native_id():
            fields = dict(line.split(":\t") for line in (task / "status").read_text().splitlines())
            found[task.name] = fields["State"][0], int(fields["voluntary_ctxt_switches"])
    return found


def idle(comm: Communicator) -> tuple[float, int]:
    """With receives that nobody answers yet: how long the other threads sleep at a time, and Python's threads."""
    before = threading.active_count()
    messages = [comm.irecv(np.empty(1), 1 - comm.rank, tag) for tag in range(3)]
    messages[0].wait(0.01)
    until(lambda: all(state == "S" for state, _ in others().values()))
    begun_s, at_first = time.monotonic(), others()
    time.sleep(0.5)
    at_last, took_s = others(), time.monotonic() - begun_s
    woke = sum(slept - at_first[name][1] for name, (_, slept) in at_last.items())
    comm.barrier()
    for tag in range(3):
        comm.send(np.ones(1), 1 - comm.rank, tag)
    assert at_last and all(message.wait() for message in messages)
    return took_s / max(woke - 1, 1), threading.active_count() - before


def test_an_idle_rank_uses_no_core() -> None:
    for nap_s, threads in spawn(idle, 2, timeout_s=60):
        assert nap_s > 0.025  # the progress thread's are 0.05 s
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
            while y[0] != turn:
                time.sleep(0)
            message.wait()
            comm.send(y, 0)
            y[0] = -1
    return True


def test_no_ring_is_missed() -> None:
    assert spawn(one_by_one, 2, timeout_s=60) == [True, True]
