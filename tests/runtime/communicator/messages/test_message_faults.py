"""Faults of messages: mistakes, lengths that do not fit, ranks that are gone, time limits."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import numpy as np
import pytest

from ringtree import ANY, PeerDied, Poisoned, TimedOut, spawn, wait_all, wait_any
from ringtree.runtime.communicator.communicator import Communicator
from ringtree.runtime.communicator.messages.work import Message
from tests.runtime.communicator.membership.test_shrink import until_it_fails
from tests.runtime.conftest import Pools, available
from tests.runtime.faults.test_faults import outcomes
from tests.runtime.outlived import Ranks, end


def arrived(comm: Communicator) -> Message:
    """One that leaves nothing behind for the tests that share the group."""
    message = comm.irecv(np.ones(1), comm.rank, 12346)
    comm.send(np.ones(1), comm.rank, 12346)
    return message


MISTAKES: list[tuple[Callable[[Communicator], object], type[Exception], str]] = [
    (lambda c: c.isend(np.ones(1), 2), ValueError, "no rank 2 to exchange messages with: expected 0..1"),
    (lambda c: c.isend(np.ones(1), ANY), ValueError, "no rank -1"),
    (lambda c: c.send(np.ones(1), 0, ANY), ValueError, "tag -1: expected 0.."),
    (lambda c: c.irecv(np.ones(1), -2), ValueError, "no rank -2"),
    (lambda c: c.recv(np.ones(1), 0, -2), ValueError, "tag -2"),
    (lambda c: c.recv(np.ones(4)[::2], 0), ValueError, "not contiguous"),
    (lambda c: c.irecv([1], 0), TypeError, "is a list; expected a numpy array"),
    (lambda c: c.probe(5), ValueError, "no rank 5"),
    (lambda c: c.copy(np.ones(1), 0, 2), ValueError, "no rank 2"),
    (lambda c: c.send(np.ones(1), None), TypeError, "rank is None; expected a whole number"),  # type: ignore[arg-type]
    (lambda c: c.recv(np.ones(1), 0.5), TypeError, "rank is a float; expected a whole number"),  # type: ignore[arg-type]
    (lambda c: c.send(np.ones(1), True), TypeError, "rank is True; expected a whole number"),
    (lambda c: c.send(np.ones(1), 0, False), TypeError, "tag is False; expected a whole number"),
    (lambda c: c.recv(np.ones(1), True), TypeError, "rank is True; expected a whole number"),
    (lambda c: c.recv(np.ones(1), 0, True, at_most=True), TypeError, "tag is True; expected a whole number"),
    (lambda c: c.isend(np.ones(1), 0, "a"), TypeError, "tag is a str; expected"),  # type: ignore[arg-type]
    (lambda c: c.send({"a": 1}, 0), TypeError, "object is not supported; .* names end in _object"),
    (lambda c: c.copy(None, 1 - c.rank, c.rank), ValueError, "copy needs out on rank [01], or an x"),
    (lambda c: (c.send(np.ones(3, np.uint8), c.rank, 3), c.recv_object(tag=3)), ValueError, "3 bytes from rank . with"),
    (lambda c: (c.send(np.ones(0, np.uint8), c.rank, 3), c.recv_object(tag=3)), ValueError, "0 bytes from rank . with"),
    (lambda c: arrived(c).wait(float("nan")), ValueError, "timeout is nan; expected seconds"),
    (lambda c: arrived(c).wait("a"), TypeError, "timeout is a str"),  # type: ignore[arg-type]
    (lambda c: wait_all([arrived(c)], float("nan")), ValueError, "timeout is nan"),
    (lambda c: wait_any([arrived(c)], float("nan")), ValueError, "timeout is nan"),
    (lambda c: c.send_object(c, 0), TypeError, "<Communicator rank . of 2, .*> is this process's own"),
    (lambda c: c.send_object(arrived(c), 0), TypeError, "a Message is this process's own .*; its result\\(\\) can"),
    (lambda c: wait_all(arrived(c)), TypeError, "works is a Message"),  # type: ignore[arg-type]
    (lambda c: c.irecv(np.ones(1), 0, 12345).source, ValueError, "still under way"),
    (lambda _: wait_any([]), ValueError, "nothing to wait for"),
    (lambda _: wait_all([]), ValueError, "nothing to wait for"),
    (lambda _: wait_all(None), TypeError, "works is None; expected a list of Works"),  # type: ignore[arg-type]
    (lambda c: c.batch().send(np.ones(1), 0), RuntimeError, "a batch that is not open; expected it within `with"),
    (lambda c: c.batch().recv(np.ones(1), 0), RuntimeError, "a batch that is not open; expected it within `with"),
    (lambda _: wait_all([3]), TypeError, "cannot wait for int"),  # type: ignore[list-item]
]


def mistakes(comm: Communicator) -> None:
    for act, kind, expected in MISTAKES:
        with pytest.raises(kind, match=expected):
            act(comm)
    comm.barrier()


def test_a_mistake_raises_at_once_and_harms_nobody(pools: Pools, engine: str) -> None:
    pools(engine, 2).run(mistakes)


@pytest.mark.parametrize("at_most", [False, True])
def test_a_message_that_is_too_long_names_both_sides(engine: str, at_most: bool) -> None:
    def act(comm: Communicator) -> None:
        if comm.rank == 0:
            comm.isend(np.ones(5), 1, 6).wait()
            comm.barrier()
        else:
            comm.irecv(np.ones(4), ANY, ANY, at_most=at_most).wait()

    for kind, message, _ in outcomes(engine, 2, act):
        assert kind == "Mismatch"
        assert f"rank 0 sent 40 bytes of float64 with tag 6 where rank 1 receives {'at most ' * at_most}32" in message


@pytest.mark.parametrize("how", ["wait", "poll", "probe", "iprobe", "wait_any"])
def test_waiting_for_any_notices_that_all_have_left(engine: str, how: str) -> None:
    def poll(comm: Communicator) -> None:
        message = comm.irecv(np.ones(1), ANY)
        while not message.done():
            pass
        message.wait()

    def iprobe(comm: Communicator) -> None:
        while comm.iprobe() is None:
            pass

    acts: dict[str, Callable[[Communicator], object]] = {
        "wait": lambda c: c.recv(np.ones(1), ANY),
        "poll": poll,
        "probe": lambda c: c.probe(),
        "iprobe": iprobe,
        "wait_any": lambda c: wait_any([c.irecv(np.ones(1), 1), c.irecv(np.ones(1), ANY)]),
    }

    def act(comm: Communicator) -> None:
        comm.barrier()
        if comm.rank:
            comm.close()
        else:
            acts[how](comm)

    kind, message, after = outcomes(engine, 2, act)[0]
    assert (kind, after) == (PeerDied.__name__, "Poisoned")
    assert "left" in message


def receives_from_any(comm: Communicator, leave: str) -> str:
    """Rank 1 leaves while ranks 0 and 2 wait for a message from any rank; then rank 2 sends one after all."""
    with comm.duplicate() as group:
        group.barrier()
        if comm.rank == 1:
            if leave == "error":
                group._tell_cause(ValueError("no such file"))
            group.close()
        elif leave == "close" and comm.rank == 2:
            while group.health()[1].state != "left":
                time.sleep(0.001)
            time.sleep(0.2)  # rank 0 has looked by then
            group.send(np.full(1, 7.0), 0, 3)
        else:
            try:
                return str(group.recv(np.zeros(1), ANY, 3)[0])
            except PeerDied as error:
                return str(error)
        return "sent or left"


@pytest.mark.skipif(not available("shm"), reason="the native engine is not built")
def test_waiting_for_any_notices_an_error_of_one() -> None:
    texts = spawn(receives_from_any, 3, "error", timeout_s=30)
    for rank in (0, 2):
        assert "rank 1 left the group while rank" in texts[rank], texts
        assert "rank 1 failed with ValueError: no such file" in texts[rank], texts


@pytest.mark.skipif(not available("shm"), reason="the native engine is not built")
def test_waiting_for_any_goes_on_when_one_has_closed_the_group() -> None:
    assert spawn(receives_from_any, 3, "close", timeout_s=30)[0] == "7.0"


def test_a_receive_from_any_that_nobody_answers_times_out(engine: str) -> None:
    def act(comm: Communicator) -> None:
        with comm.duplicate() as hasty:
            hasty.set_timeout(0.1)
            for what in (lambda: hasty.recv(np.ones(1), ANY, ANY), hasty.irecv(np.ones(1), ANY, 1).wait, hasty.probe):
                with pytest.raises(TimedOut, match=r"waited 0\.1 s for .* any rank, (any tag|tag 1)"):
                    what()
            comm.barrier()  # all have given up by now

    assert {kind for kind, *_ in outcomes(engine, 2, act)} == {"none"}


def test_messages_sent_before_leaving_are_received() -> None:
    """Rank 1 sends and leaves at about the moment when rank 0 first looks whether rank 1 is still there."""

    def rank(comm: Communicator) -> None:
        x = np.zeros(1)
        for delay_s in np.linspace(1e-3, 4e-3, 60):
            pair = comm.duplicate()
            pair.barrier()
            if comm.rank == 1:
                time.sleep(delay_s)
                pair.send(np.full(1, delay_s), 0)
                pair.close()
            else:
                pair.recv(x, 1)
                assert x[0] == delay_s
                pair.close()

    spawn(rank, 2)


@pytest.mark.skipif(not available("shm"), reason="the native engine is not built")
def test_a_message_of_a_closed_group_names_who_had_died() -> None:
    def act(comm: Communicator) -> list[str]:
        comm.barrier()
        if comm.rank == 1:
            end()
        pending = comm.irecv(np.zeros(2), 1, 3), comm.isend(np.ones(1 << 20), 1, 4)
        until_it_fails(comm)
        comm.close()
        found = []
        for message in pending:
            with pytest.raises(Poisoned) as raised:
                message.wait()
            found.append(str(raised.value))
        return found

    with Ranks(2, act) as ranks:
        found = ranks.reports()
    for text in found[0]:
        assert re.match(r"the group is closed; the first cause: rank 1 (died|left)", text)
