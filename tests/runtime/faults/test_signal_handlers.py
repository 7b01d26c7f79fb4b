"""A signal's handler that interrupts a call, and asks the same group for something that waits for the call's end."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable

import numpy as np
import pytest

pytest.importorskip("ringtree._native")

from ringtree import spawn
from ringtree.runtime.communicator.communicator import Communicator
from tests.waiting import Event

Call = Callable[[Communicator], object]

WAITS: dict[str, Call] = {
    "a collective": lambda comm: comm.barrier(),
    "a receive": lambda comm: comm.recv(np.ones(1), 1),
    "a posted receive": lambda comm: comm.irecv(np.ones(1), 1).wait(),
    "a probe": lambda comm: comm.probe(1),
}


def barrier(comm: Communicator) -> None:
    comm.barrier()


def reduce(comm: Communicator) -> None:
    comm.all_reduce(np.ones(1))


def started_reduce(comm: Communicator) -> None:
    comm.all_reduce(np.ones(1), async_op=True).wait()


def interrupted(wait: Call, handle: Call, peer: Call = barrier, engine: str = "shm") -> list[str]:
    """The ends of rank 0, whose handler runs in `wait`, and of rank 1, whose call begins once the handler has ended."""
    handled = Event()

    def rank(comm: Communicator) -> str:
        def handler(*_: object) -> None:
            try:
                handle(comm)
            finally:
                handled.set()

        comm.all_reduce(np.ones(1))
        comm.all_reduce(np.ones(50_000))  # first calls of a kind may take longer than the alarm
        comm.barrier()
        try:
            if comm.rank == 1:
                handled.wait()
                peer(comm)
            else:
                signal.signal(signal.SIGALRM, handler)
                signal.setitimer(signal.ITIMER_REAL, 0.2)
                wait(comm)
        except Exception as error:  # noqa: BLE001
            return f"{type(error).__name__}: {error}"
        return "done"

    return spawn(rank, 2, engine=engine, timeout_s=30)


def interrupted_in_started_call(handle: Call) -> list[str]:
    """The same where Work.wait runs the call itself, which it does unless the group's thread has begun it before."""

    def handle_within(comm: Communicator) -> None:
        if comm._endpoint.is_within_call:
            handle(comm)

    for _ in range(20):
        if (ends := interrupted(started_reduce, handle_within, reduce)) != ["done", "done"]:
            return ends
    raise AssertionError("the group's thread began each of the calls")


@pytest.mark.parametrize("wait", list(WAITS))
def test_close_within_a_call_is_refused(wait: str) -> None:
    ends = interrupted(WAITS[wait], lambda comm: comm.close())
    assert ends[0].startswith(
        "RuntimeError: rank 0 called close in a signal's handler, within a call of the same group"
    )
    assert "left the group" in ends[1] or "was interrupted in" in ends[1]


def test_a_group_beside_may_be_closed_before() -> None:
    def rank(comm: Communicator) -> None:
        comm.beside("a purpose").close()
        comm.close()

    assert spawn(rank, 2, timeout_s=30) == [None, None]


@pytest.mark.parametrize("size", [1, 50_000])
@pytest.mark.parametrize("engine", ["shm", "emulated"])
def test_an_exception_of_a_handler_ends_the_call_and_the_group(engine: str, size: int) -> None:
    """The peer's call begins later, and would else have met the one that was interrupted; so would a native one."""

    def stop(comm: Communicator) -> None:
        raise KeyError("stop")

    def again(comm: Communicator) -> None:
        comm.all_reduce(np.ones(size))

    for first in (again, barrier):
        ends = interrupted(first, stop, again, engine)
        assert ends[0] == "KeyError: 'stop'"
        assert re.match("Poisoned: rank 0 was interrupted in (all_reduce|barrier), call ", ends[1]), ends


@pytest.mark.parametrize("engine", ["shm", "emulated"])
def test_a_handler_that_handles_its_refusal_leaves_the_call_whole(engine: str) -> None:
    def handle(comm: Communicator) -> None:
        with pytest.raises(RuntimeError, match="within a call of the same group"):
            comm.close()

    assert interrupted(WAITS["a collective"], handle, engine=engine) == ["done", "done"]


def test_close_ends_a_call_that_another_thread_makes() -> None:
    """The group's own thread has begun the call, and the thread that waits for it is in none."""

    def wait(comm: Communicator) -> None:
        work = comm.all_reduce(np.ones(1), async_op=True)
        assert not work.wait(0.05)
        work.wait()

    ends = interrupted(wait, lambda comm: comm.close(), reduce)
    assert [end.split(": ")[0] for end in ends] == ["Poisoned"] * 2, ends
    assert all("rank 0 closed its group while in all_reduce" in end for end in ends), ends


@pytest.mark.parametrize(
    ("what", "handle"),
    [
        ("close", lambda comm: comm.close()),
        ("all_reduce(float64", reduce),
        ("wait", started_reduce),
        ("trace", lambda comm: comm._endpoint.record(10)),
    ],
    ids=["close", "a call", "a wait", "a trace"],
)
def test_nothing_waits_within_a_call_that_was_started(what: str, handle: Call) -> None:
    ends = interrupted_in_started_call(handle)
    assert ends[0].startswith(f"RuntimeError: rank 0 called {what}") and "in a signal's handler" in ends[0], ends
    assert "rank 0 was interrupted in all_reduce" in ends[1], ends
