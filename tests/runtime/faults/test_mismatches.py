"""A mismatched call is reported to every rank: in the call, in the next one, or when it closes the group."""

from __future__ import annotations

import numpy as np
import pytest

from ringtree import spawn
from ringtree.errors import Mismatch, PeerDied, TimedOut
from ringtree.runtime.communicator.communicator import Communicator
from tests.runtime.conftest import available
from tests.runtime.faults.mismatches import Heard, play_all
from tests.waiting import Event

pytestmark = pytest.mark.skipif(not available("shm"), reason="the native engine is not built")


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize("ranks", [2, 3, *(pytest.param(n, marks=pytest.mark.slow) for n in (4, 5))])
def test_every_rank_hears_of_a_mismatch(ranks: int, check: bool) -> None:
    wrong = wrongly_heard(spawn(play_all, ranks, check, timeout_s=60), check)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("nbytes", [8, 65_536])
def test_a_root_that_is_not_the_others_is_reported_though_they_go_on(nbytes: int) -> None:
    """They run ahead of the rank that waits for its root until no staging slot is free."""
    for rank, text in enumerate(spawn(broadcast_on, 4, nbytes, timeout_s=20)):
        assert text.startswith("Mismatch: ") and "rank 2 called broadcast(" in text and "root 3)" in text, (rank, text)


def broadcast_on(comm: Communicator, nbytes: int) -> str:
    x = np.ones(nbytes // 4, np.float32)
    try:
        comm.broadcast(x, 3 if comm.rank == 2 else 0)
        for _ in range(1000):
            comm.broadcast(x, 0)
    except (Mismatch, TimedOut) as error:
        return f"{type(error).__name__}: {error}"
    return "nothing"


def test_a_rank_that_only_sent_hears_of_a_skipped_call_where_another_has_missed_it_first() -> None:
    missed = Event()
    texts = spawn(gather_without_the_last, 4, missed, timeout_s=20)
    assert texts.pop() == "nothing"
    for rank, text in enumerate(texts):
        assert text.startswith("PeerDied: rank 3 left the group while rank 0 waited for it in gather"), (rank, text)


def gather_without_the_last(comm: Communicator, missed: Event) -> str:
    group = comm.duplicate()
    group.barrier()
    try:
        if group.rank < 3:
            group.gather(np.ones(3))
            missed.wait()
        group.close()
    except PeerDied as error:
        missed.set()
        return f"{type(error).__name__}: {error}"
    finally:
        group.close()
        comm.barrier()
    return "nothing"


@pytest.mark.parametrize("timeout_s", [1.0, 20.0])
def test_who_has_only_sent_hears_of_a_skipped_call_though_another_cause_was_first(timeout_s: float) -> None:
    """Rank 0 skips a reduce and leaves: before rank 1 has timed out for it, or after."""
    heard, left = Event(), Event()
    early = timeout_s > 1
    texts = spawn(reduce_without_the_first, 3, heard, left, early, timeout_s=timeout_s)
    first = "PeerDied: rank 0 left the group while" if early else "TimedOut: rank 1 waited 1 s for rank 0 in reduce"
    assert texts[0] == "nothing" and all(text.startswith(first) for text in texts[1:]), texts


def reduce_without_the_first(comm: Communicator, heard: Event, left: Event, early: bool) -> str:
    comm.barrier()
    try:
        if comm.rank > 0:
            comm.reduce(np.ones(3), root=1)
        if comm.rank == 0 and not early:
            heard.wait()
        if comm.rank == 2:
            heard.wait()
            left.wait()
        comm.close()
    except (PeerDied, TimedOut) as error:
        heard.set()
        return f"{type(error).__name__}: {error}"
    left.set()
    return "nothing"


def test_a_rank_that_left_after_another_call_is_no_death() -> None:
    """It has only sent, and waits for a second, as it closes, for those who are late."""
    left = Event()
    texts = spawn(another_call_and_leave, 3, left, timeout_s=20)
    assert texts[2] == "nothing"
    for text in texts[:2]:
        assert text.startswith("Mismatch: rank 2 called reduce(") and "called all_reduce(" in text, text


def another_call_and_leave(comm: Communicator, left: Event) -> str:
    comm.barrier()
    try:
        if comm.rank == 2:
            comm.reduce(np.ones(3), root=1)
            comm.close()
            left.set()
        else:
            left.wait()
            comm.all_reduce(np.ones(3))
    except (Mismatch, PeerDied) as error:
        return f"{type(error).__name__}: {error}"
    return "nothing"


def test_a_failure_of_another_group_names_nobody_who_is_still_here() -> None:
    """Rank 2 left a group of all early, which the others got over; then rank 0 skips the world's last call."""
    found = spawn(over_it_and_on, 3, Event(), Event(), timeout_s=20)
    assert found[0] == "nothing"
    for text in found[1:]:
        assert text.startswith("0: rank 0 left the group while rank 1 waited for it in reduce"), found


def over_it_and_on(comm: Communicator, sent: Event, heard: Event) -> str:
    group = comm.duplicate()
    group.barrier()
    if comm.rank == 2:
        group.close()
    else:
        with pytest.raises(PeerDied, match="rank 2 left"):
            group.all_reduce(np.ones(3))
        group.close()
    comm.barrier()
    try:
        if comm.rank == 0:
            sent.wait()
        else:
            comm.reduce(np.ones(3), root=1)
        if comm.rank == 2:
            sent.set()
            heard.wait()
        comm.close()
    except PeerDied as error:
        heard.set()
        return f"{error.rank}: {error}"
    return "nothing"


def wrongly_heard(
    all_heard: list[list[tuple[str, str, int, str, Heard]]], check: bool, hosts: bool = False
) -> list[str]:
    """What ranks heard too late, or not at all, or as another error. `hosts`: they are on several, where nobody
    hears of a last call that one rank did not make, if the others did not wait for it."""
    wrong = []
    for rank, heard in enumerate(all_heard):
        for kind, row, culprit, ends, (when, text) in heard:
            here = f"{row} of rank {culprit}, then {ends}: rank {rank} heard {when}: {text}"
            left = kind in ("skipped", "extra") and text.startswith("PeerDied: ")  # who makes no more calls
            late = when not in {"before"} | _expected(kind, ends, check, rank == culprit, hosts)
            if late or (when != "never" and not left and not text.startswith("Mismatch: ")):
                wrong.append(here)
    return wrong


def _expected(kind: str, ends: str, check: bool, culprit: bool, hosts: bool) -> set[str]:
    """When a rank may hear. One that makes no such call hears in its next; one that makes no further call cannot be
    missed by itself. Over hosts a rank may be through its next call before another has read the message that shows it.
    """
    makes_none = (kind == "skipped" and culprit) or (kind == "extra" and not culprit)
    if makes_none:
        return {"next"} if ends == "next" else {"never", "close"}
    never = {"never"} if hosts and ends == "close" and kind in ("skipped", "extra") else set[str]()
    return never | ({"call"} if check else {"call", ends, "close"} if hosts else {"call", ends})
