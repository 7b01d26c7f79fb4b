"""Waits that were given up: what peers read of them, and what else the error of a wait says, and does not say."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from pathlib import Path
from threading import Thread

import numpy as np
import pytest

from ringtree import ANY, PeerDied, Poisoned, RankFailed, TimedOut, spawn
from ringtree.runtime.communicator.communicator import Communicator
from tests.waiting import Event, until

pytest.importorskip("ringtree._native")

X = np.ones(8)
WAITED = "; the first cause: rank 1 waited 0.3 s for rank 2 in recv from rank 2, tag 6"


@pytest.mark.parametrize("stays_s", [0.0, 1.2])
def test_who_leaves_after_a_wait_that_it_gave_up_names_it(stays_s: float) -> None:
    """1 waits in vain for 2, and closes its groups: at once, or after a second of other things."""
    heard = Event()

    def rank(comm: Communicator) -> str:
        pair = comm.split(None if comm.rank == 0 else 0)
        comm.barrier()
        if comm.rank == 1:
            assert pair is not None
            pair.set_timeout(0.3)
            with pytest.raises(TimedOut):
                pair.recv(X.copy(), 1, tag=6)
            time.sleep(stays_s)
        elif comm.rank == 0:
            with pytest.raises(PeerDied) as raised:
                comm.recv(X.copy(), 1)
            heard.set()
            return str(raised.value)
        else:
            heard.wait()
        comm.close()
        return ""

    left = "rank 1 left the group while rank 0 waited for it in recv from rank 1, tag 0"
    assert spawn(rank, 3, timeout_s=60)[0] == left + ("" if stays_s else WAITED)


def test_whom_a_rank_misses_that_makes_a_group_is_found_behind_it() -> None:
    """0 waits for 1, which waits for 2 to come to a group; 2 is stopped."""

    def rank(comm: Communicator) -> str:
        if comm.rank == 2:
            comm.send(np.array([os.getpid()]), 0)
            os.kill(os.getpid(), signal.SIGSTOP)
            return ""
        if comm.rank == 1:
            with contextlib.suppress(RuntimeError):
                comm.group([1, 2], timeout_s=20)
            return ""
        stopped = comm.recv(np.zeros(1, np.int64), 2)[0]
        comm.set_timeout(1.5)
        try:
            with pytest.raises(TimedOut) as raised:
                comm.recv(X.copy(), 1)
        finally:
            os.kill(stopped, signal.SIGCONT)
        comm.close()
        return str(raised.value)

    assert spawn(rank, 3, timeout_s=60)[0] == (
        "rank 0 waited 1.5 s for rank 1 in recv from rank 1, tag 0; the first cause: rank 2 did not come: its process "
        "is stopped (rank 1 waits for rank 2 in group([1, 2]))"
    )


def test_a_call_that_ends_because_its_group_is_closed_says_why_it_is() -> None:
    """Of two threads of 1 one waits in vain for 2, and closes the group in which the other waits with 0."""
    heard = Event()

    def rank(comm: Communicator) -> str:
        pair = comm.split(None if comm.rank == 0 else 0)
        comm.barrier()
        if comm.rank == 0:
            with pytest.raises(Poisoned) as raised:
                comm.barrier()
            heard.set()
            return str(raised.value)
        if comm.rank == 1:
            assert pair is not None

            def waits() -> None:
                with contextlib.suppress(RuntimeError):
                    comm.barrier()

            other = Thread(target=waits)
            other.start()
            pair.set_timeout(0.3)
            with pytest.raises(TimedOut):
                pair.recv(X.copy(), 1, tag=6)
            comm.close()
            other.join()
        else:
            heard.wait()
        return ""

    text = spawn(rank, 3, timeout_s=60)[0]
    closed = r"rank 1 failed in barrier, call (\d): rank 1 closed its group while in barrier, call \1"
    assert re.fullmatch(closed + re.escape(WAITED), text), text


@pytest.mark.parametrize("step", ["its making", "its mapping"])
def test_an_array_that_a_rank_did_not_come_to_is_why_another_leaves(step: str) -> None:
    heard = Event()

    def rank(comm: Communicator) -> str:
        pair = None if comm.rank == 0 else comm.group([1, 2], timeout_s=0.3)
        comm.barrier()
        if comm.rank == 0:
            with pytest.raises(PeerDied) as raised:
                comm.recv(X.copy(), 1)
            heard.set()
            return str(raised.value)
        assert pair is not None
        if comm.rank == 2:  # it has agreed on the array, and goes no further
            if step == "its making":
                comm.empty.__func__.__globals__["windows"].allocate = lambda *_: heard.wait()
            else:
                type(pair._parameters.bootstrap).exchange = lambda *_: heard.wait()
            with contextlib.suppress(Exception):
                pair.empty(8)
        else:
            with pytest.raises(TimeoutError, match="rank 2 did not come to an array"):
                pair.empty(8)
            comm.close()
        return ""

    text = spawn(rank, 3, timeout_s=60)[0]
    left = "rank 1 left the group while rank 0 waited for it in recv from rank 1, tag 0; the first cause: rank 2 "
    assert text.startswith(left + "did not come to an array of shape (8,) of float32, 2 times in shared memory within")


def test_a_group_whose_member_waits_elsewhere_names_whom_it_waits_for() -> None:
    """0 makes a group with 1, which waits for 2."""
    heard = Event()

    def rank(comm: Communicator) -> str:
        pair = comm.split(None if comm.rank == 0 else 0)
        comm.barrier()
        if comm.rank == 0:
            with pytest.raises(TimedOut) as raised:
                comm.group([0, 1], timeout_s=0.5)
            heard.set()
            return str(raised.value)
        if comm.rank == 1:
            assert pair is not None
            pair.recv(X.copy(), 1)
        else:
            heard.wait()
            assert pair is not None
            pair.send(X, 0)
        return ""

    text = spawn(rank, 3, timeout_s=60)[0]
    assert text.startswith("group([0, 1]): rank 1 did not come to the group of 2 ranks within 0.5 s"), text
    assert text.endswith("; the first cause: rank 2 did not come (rank 1 waits for rank 2)"), text


def test_a_death_is_not_explained_by_a_message_with_another_tag(tmp_path: Path) -> None:
    ready = Event()

    def rank(comm: Communicator) -> None:
        if comm.rank == 2:
            comm.send(X, 1, tag=7)
        comm.barrier()
        if comm.rank == 0:
            ready.wait()
            os._exit(1)
        if comm.rank == 1:
            ready.set()
            with pytest.raises(PeerDied) as raised:
                comm.recv(X.copy(), ANY, tag=6)
            (tmp_path / "text").write_text(str(raised.value))

    with pytest.raises(RankFailed):
        spawn(rank, 3, timeout_s=60)
    died = r"rank 0 died \(process \d+ ended\) while rank 1 waited for its peers in recv from any rank, tag 6"
    assert re.fullmatch(died, (tmp_path / "text").read_text())


def test_a_link_of_a_chain_says_which_message_lies_there() -> None:
    """3 waits for 0, 0 for 1 by a tag that 1 has yet to send, and 1 for 2."""
    heard = Event()

    def rank(comm: Communicator) -> str:
        if comm.rank == 1:
            comm.send(X, 0, tag=7)
        comm.barrier()
        if comm.rank == 0:
            comm.recv(X.copy(), 1, tag=6)
        elif comm.rank == 1:
            comm.recv(X.copy(), 2)
            comm.send(X, 0, tag=6)
        elif comm.rank == 2:
            heard.wait()
            comm.send(X, 1)
        else:
            comm.set_timeout(0.5)
            with pytest.raises(TimedOut) as raised:
                comm.recv(X.copy(), 0)
            heard.set()
            return str(raised.value)
        return ""

    way = (
        "rank 0 waits for rank 1 in recv from rank 1, tag 6 (a message of rank 1 with tag 7 has come and waits for its "
    )
    cause = f"; the first cause: rank 2 did not come ({way}recv), rank 1 waits for rank 2)"
    assert spawn(rank, 4, timeout_s=60)[3] == f"rank 3 waited 0.5 s for rank 0 in recv from rank 0, tag 0{cause}"


def test_a_group_made_before_an_error_is_raised_hears_of_it() -> None:
    """1 makes a group with 2 while a call of its fails, and raises that call's error after it."""
    ready, heard = Event(), Event()

    def rank(comm: Communicator) -> str:
        pair = None if comm.rank == 2 else comm.group([0, 1])
        comm.barrier()
        if comm.rank == 0:
            assert pair is not None
            ready.wait()
            pair.abort("on purpose")
            heard.wait()
        elif comm.rank == 1:
            assert pair is not None
            call = pair.all_reduce(X, async_op=True)
            ready.set()
            until(lambda: pair._endpoint.failure)
            other = comm.group([1, 2])
            other.barrier()
            with pytest.raises(Poisoned, match="on purpose"):
                call.wait()
            comm.close()
            other.close()
        else:
            other = comm.group([1, 2])
            other.barrier()
            with pytest.raises(PeerDied) as raised:
                other.barrier()
            heard.set()
            return str(raised.value)
        return ""

    text = spawn(rank, 3, timeout_s=60)[2]
    left = "rank 1 left the group while rank 2 waited for it in barrier, call 2; the first cause: "
    assert text == left + "rank 0 aborted the group: on purpose"


def test_a_departure_is_explained_by_a_message_with_another_tag() -> None:
    def rank(comm: Communicator) -> str:
        pair = None if comm.rank == 2 else comm.group([0, 1])
        comm.barrier()
        text = ""
        if pair is not None:
            if comm.rank == 0:
                pair.send(X, 1, tag=7)
            else:
                with pytest.raises(PeerDied) as raised:
                    pair.recv(X.copy(), 0, tag=6)
                text = str(raised.value)
            pair.close()
        return text

    left = "rank 0 left the group while rank 1 waited for it in recv from rank 0, tag 6"
    message = " (a message of rank 0 with tag 7 has come and waits for its recv)"
    assert spawn(rank, 3, timeout_s=60)[1] == left + message


def test_who_waits_for_anyone_misses_those_that_have_left() -> None:
    """3 leaves all groups, and 2, which hears of it in another; 0 and 1 wait for any rank."""
    heard = [Event(), Event()]

    def rank(comm: Communicator) -> str:
        others = comm.duplicate()
        comm.barrier()
        if comm.rank == 3:
            comm.close()
            others.close()
        elif comm.rank == 2:
            with pytest.raises(PeerDied):
                comm.recv(X.copy(), 3)
            others.close()
            comm.close()
        else:
            others.set_timeout(0.5)
            with pytest.raises(TimedOut) as raised:
                others.recv(X.copy(), ANY)
            heard[comm.rank].set()
            heard[1 - comm.rank].wait()
            return str(raised.value)
        return ""

    waited = "waited 0.5 s for its peers in recv from any rank, tag 0"
    left = "rank 3 left the group while rank 2 waited for it in recv from rank 3, tag 0"
    assert spawn(rank, 4, timeout_s=60)[:2] == [f"rank {r} {waited}; the first cause: {left}" for r in (0, 1)]


def test_the_one_other_rank_is_named() -> None:
    def rank(comm: Communicator) -> str:
        if comm.rank == 0:
            with pytest.raises(PeerDied) as raised:
                comm.recv(X.copy(), ANY)
            return str(raised.value)
        comm.close()
        return ""

    assert spawn(rank, 2)[0] == "rank 1 left the group while rank 0 waited for it in recv from any rank, tag 0"
