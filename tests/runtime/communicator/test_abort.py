"""Groups that are ended from another thread: aborted, closed, or given less time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ringtree import PeerDied, Poisoned, TimedOut, Work, spawn
from ringtree.runtime.communicator.communicator import Communicator
from ringtree.runtime.engines.engine import in_threads
from tests.waiting import Event

Act = Callable[[Communicator], Any]
BIG = np.ones(1 << 22)  # more than pipes hold

WAITS: dict[str, Act] = {
    "all_reduce": lambda c: c.all_reduce(1),
    "async all_reduce": lambda c: c.all_reduce(1, async_op=True).wait(),
    "async all_reduce, for some time": lambda c: c.all_reduce(1, async_op=True).wait(30.0),
    "recv": lambda c: c.recv(np.empty(1), c.size - 1),
    "send": lambda c: c.send(BIG, c.size - 1),
    "irecv": lambda c: c.irecv(np.empty(1), c.size - 1).wait(),
    "probe": lambda c: c.probe(c.size - 1),
    "wait_signal": lambda c: c.wait_signal(c.size - 1),
    "reduction in Python": lambda c: c.all_reduce(np.ones(1), lambda a, b: a + b),
    "group": lambda c: c.group(range(c.size)),
}


def aborted(comm: Communicator, wait: str) -> tuple[str, str]:
    """All but the last rank wait for it; it aborts."""
    error, text = "none", ""
    if comm.rank == comm.size - 1:
        aborts = threading.Timer(0.05, comm.abort, ("enough",))
        aborts.start()
        aborts.join()
        wait = "all_reduce"
    try:
        WAITS[wait](comm)
    except Exception as raised:  # noqa: BLE001  # the test looks at it
        error, text = type(raised).__name__, str(raised)
    comm.abort("too late")
    comm.close()
    comm.abort("after its end")
    return error, text


@pytest.mark.parametrize("wait", list(WAITS))
def test_an_abort_ends_every_wait_and_names_its_rank(every_engine: str, wait: str) -> None:
    if in_threads(every_engine) and wait in ("group", "send"):
        pytest.skip("meets elsewhere; keeps what it sends")
    for error, text in spawn(aborted, 3, wait, engine=every_engine, threads=in_threads(every_engine), timeout_s=60):
        assert error == "Poisoned", text
        assert "rank 2 aborted the group: enough" in text


def begun_afterwards(comm: Communicator, ended: Event) -> list[str]:
    """Rank 1 aborts a group in which nobody waits; calls of all begin later."""
    group, found = comm.duplicate(), []
    group.all_reduce(np.ones(3))
    comm.barrier()  # an abort ends the call of whoever is still in it
    if comm.rank == 1:
        group.abort("enough")
        ended.set()
    ended.wait()
    for call in (lambda: group.all_reduce(np.ones(3)), lambda: group.all_reduce(np.ones(3)), group.barrier):
        try:
            call()
            found.append("nothing")
        except Poisoned as error:
            found.append(str(error))
    comm.barrier()
    return found


def test_calls_that_begin_after_an_abort_are_refused_on_every_rank(every_engine: str) -> None:
    found = spawn(begun_afterwards, 3, Event(), engine=every_engine, threads=in_threads(every_engine), timeout_s=60)
    for text in (text for texts in found for text in texts):
        assert "rank 1 aborted the group: enough" in text


def after_an_error(comm: Communicator) -> list[str]:
    """A reduction in Python raises on rank 2 alone; each rank goes on as if nothing had been."""
    found = []

    def add(a: object, b: object) -> object:
        if comm.rank == 2:
            raise ZeroDivisionError("mine")
        return a + b  # type: ignore[operator]

    for k in range(4):
        try:
            found.append(str(comm.all_reduce(np.full(3, float(k)), "sum" if k else add)))
        except Exception as error:  # noqa: BLE001  # the test looks at it
            found.append(type(error).__name__)
    return found


def test_no_call_after_a_failure_has_a_result(every_engine: str) -> None:
    for texts in spawn(after_an_error, 3, engine=every_engine, threads=in_threads(every_engine), timeout_s=60):
        assert texts[1:] == ["Poisoned"] * 3, texts


def torn(comm: Communicator, wait: str, how: str) -> list[str]:
    """Groups that one thread closes while another is in the middle of calls on them."""
    wrong = []
    for turn in range(4):
        group = comm.duplicate()
        raised: list[BaseException] = []

        def call(group: Communicator = group, raised: list[BaseException] = raised) -> None:
            try:
                while True:
                    WAITS[wait](group)
            except (RuntimeError, OSError) as error:
                raised.append(error)

        callers = [threading.Thread(target=call) for _ in range(2)]
        for caller in callers:
            caller.start()
        time.sleep(0.002 * (turn % 4))
        if how == "abort":
            group.abort("torn")
        try:
            group.close()
        except PeerDied:  # of a call that failed before the thread that started it came to wait for it
            if wait != "async all_reduce":
                raise
        for caller in callers:
            caller.join(60)
        if any(caller.is_alive() for caller in callers) or len(raised) != 2:
            wrong.append(f"turn {turn}: {raised}")
        comm.barrier()
    return wrong


@pytest.mark.parametrize("how", ["abort", "close"])
@pytest.mark.parametrize("wait", ["all_reduce", "async all_reduce", "recv", "irecv", "probe", "wait_signal"])
def test_a_group_may_be_closed_while_threads_are_in_it(wait: str, how: str) -> None:
    assert spawn(torn, 2, wait, how, timeout_s=60) == [[], []]


def awaited(comm: Communicator, waits: list[Event]) -> list[str]:
    """Rank 1 closes groups in which one of its threads waits for a call that rank 0 never makes."""
    wrong = []
    for turn, begins in enumerate(waits):
        group, raised = comm.duplicate(), []
        if comm.rank == 0:
            begins.wait()
            time.sleep(0.02)  # by then the thread waits
        else:
            work = group.all_reduce(1, async_op=True)

            def wait(work: Work = work, raised: list[BaseException] = raised, begins: Event = begins) -> None:
                begins.set()
                try:
                    work.wait()
                except PeerDied as error:
                    raised.append(error)

            waiter = threading.Thread(target=wait)
            waiter.start()
            while not work.done():
                pass
        try:
            group.close()
        except PeerDied as error:
            raised.append(error)
        if comm.rank == 1:
            waiter.join(60)
            if len(raised) != 1:
                wrong.append(f"turn {turn}: {raised}")
        comm.barrier()
    return wrong


def test_a_failure_for_which_a_thread_waits_is_raised_there_alone() -> None:
    assert spawn(awaited, 2, [Event() for _ in range(15)], timeout_s=60) == [[], []]


def hurried(comm: Communicator, wait: str, gave_up: Event) -> None:
    if comm.rank == 1:
        gave_up.wait()
        return
    comm.set_timeout(0.1)
    with pytest.raises((TimedOut, Poisoned), match=r"waited 0\.1 s"):
        WAITS[wait](comm)
    gave_up.set()


@pytest.mark.parametrize("wait", ["all_reduce", "async all_reduce", "recv", "irecv", "probe", "reduction in Python"])
def test_a_timeout_may_be_set_later(every_engine: str, wait: str) -> None:
    spawn(hurried, 2, wait, Event(), engine=every_engine, threads=in_threads(every_engine), timeout_s=60)
