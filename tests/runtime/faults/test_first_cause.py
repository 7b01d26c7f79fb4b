"""Every error after the first names the first cause: over groups, threads, chains of waits, and ranks that left."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ringtree import ANY, Mismatch, PeerDied, RankFailed, TimedOut, spawn
from ringtree.runtime.communicator.communicator import Communicator
from tests.waiting import Event, Naps

pytest.importorskip("ringtree._native")

CULPRIT = 2
X = np.ones(8)

Act = Callable[[Communicator], object]


def kill(_: Communicator) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def fail(_: Communicator) -> None:
    raise ValueError("boom\nand more")


def end(_: Communicator) -> None:
    raise SystemExit(3)


FAULTS: dict[str, tuple[Act, str]] = {
    "killed": (kill, r"rank 2 died \(process \d+ ended\) while rank \d waited for it in "),
    "raises": (fail, r"rank 2 failed with ValueError: boom$"),
    "exits": (end, r"rank 2 ended by sys.exit\(3\)$"),
    "mismatch": (lambda c: c.all_reduce(X[:3]), "rank 2 called all_reduce.*count 3"),
}


def on_record(folder: Path, comm: Communicator, act: Act, since: Callable[[], object] = lambda: True) -> None:
    """Does it, and writes down the error."""
    with Naps(since) as naps:
        try:
            act(comm)
            kind, text, args = "none", "", []
        except Exception as error:  # noqa: BLE001  # whatever it is, it goes on record
            kind, text, args = type(error).__name__, str(error), list(error.args[1:])
    (folder / f"rank{comm.rank}").write_text(json.dumps([kind, text, args, naps.count]))
    if kind != "none":
        raise RuntimeError("on record")


def recorded(folder: Path, rank: int) -> tuple[str, str, list[Any], int]:
    kind, text, args, naps = json.loads((folder / f"rank{rank}").read_text())
    return kind, text, args, naps


def pair(comm: Communicator, a: int, b: int) -> Communicator | None:
    return comm.group([a, b]) if comm.rank in (a, b) else None


@pytest.mark.parametrize("fault", list(FAULTS))
@pytest.mark.parametrize("ends", ["leaves", "dies"])
def test_the_cause_crosses_groups_without_the_culprit(fault: str, ends: str, tmp_path: Path) -> None:
    """2 fails, 1 waits for 2, 0 for 1, 3 for 0: each in a group of the two. Those that have heard leave, or die."""
    act, expected = FAULTS[fault]
    fails = Event()

    def rank(comm: Communicator) -> None:
        groups = {link: pair(comm, *link) for link in ((1, 2), (0, 1), (0, 3))}
        comm.barrier()
        if comm.rank == CULPRIT:
            mine = groups[1, 2]
            assert mine is not None
            time.sleep(0.05)
            fails.set()
            act(mine)
            return
        link, peer = {1: ((1, 2), 1), 0: ((0, 1), 1), 3: ((0, 3), ANY)}[comm.rank]
        mine = groups[link]
        assert mine is not None
        waits = mine.barrier if comm.rank == 1 and fault == "mismatch" else lambda: mine.recv(X.copy(), peer)
        try:
            on_record(tmp_path, comm, lambda _: waits(), fails.is_set)
        finally:
            if ends == "dies":
                os._exit(1)

    with pytest.raises(RankFailed):
        spawn(rank, 4, timeout_s=60)
    for survivor in (0, 1, 3):
        kind, text, _, naps = recorded(tmp_path, survivor)
        assert kind in ("PeerDied", "Mismatch")
        assert naps < Naps.A_SECOND
        assert re.search(expected, text), text
        if survivor != 1:
            gone = "left the group" if ends == "leaves" else r"died \(process \d+ ended\)"
            begins = rf"(rank [01]|every other rank) {gone}.* waited for i?t.* in recv from .*; the first cause: "
            assert re.match(begins, text), text
            assert text.count("the first cause") == 1


@pytest.mark.parametrize("call", ["all_reduce", "split"])
def test_the_rank_of_the_error_is_the_culprits_where_it_is_a_member(call: str, tmp_path: Path) -> None:
    """1 hears of 2 in a pair and leaves; the others have waited for 1 only, and 2 has left everything as well."""
    calls: dict[str, Act] = {
        "all_reduce": lambda c: c.all_reduce(X),
        "split": lambda c: c.split(0),
    }

    def rank(comm: Communicator) -> None:
        other, mine = comm.duplicate(), pair(comm, 1, 2)
        comm.barrier()
        if mine is None:
            on_record(tmp_path, comm, lambda _: calls[call](other))
        elif comm.rank == CULPRIT:
            fail(comm)
        else:
            on_record(tmp_path, comm, lambda _: mine.all_reduce(X))

    with pytest.raises(RankFailed):
        spawn(rank, 4, timeout_s=60)
    for survivor in (0, 1, 3):
        kind, text, args, _ = recorded(tmp_path, survivor)
        assert kind == "PeerDied"
        assert "the first cause: rank 2 failed with ValueError: boom" in text
        assert args == ([1] if survivor == 1 else [2])


def test_a_call_that_a_rank_never_made_names_why_it_left(tmp_path: Path) -> None:
    """1 has only sent in its last call, to 0, which has heard of 2 in a pair and closed."""
    sent = Event()

    def rank(comm: Communicator) -> None:
        mine = pair(comm, 0, CULPRIT)
        comm.barrier()
        if mine is None:
            comm.reduce(X, root=0)
            sent.set()
            on_record(tmp_path, comm, lambda c: c.close())
            return
        sent.wait()
        with pytest.raises(Mismatch):
            mine.all_reduce(X[: 8 - comm.rank])
        comm.close()

    with pytest.raises(RankFailed):
        spawn(rank, 3, timeout_s=60)
    kind, text, args, _ = recorded(tmp_path, 1)
    assert (kind, args) == ("PeerDied", [0])
    left, cause = text.split("; the first cause: ")
    assert re.match(r"rank 0 left the group without call \d+, which rank 1 made: reduce\(", left), text
    assert re.match(r"rank \d called all_reduce", cause), text


def test_of_two_dead_ranks_the_first_is_named(tmp_path: Path) -> None:
    """1 hears of 2 and dies, before 0 looks who is left in a group of all."""
    gone = Event()

    def rank(comm: Communicator) -> None:
        other, mine = comm.duplicate(), pair(comm, 1, 2)
        comm.barrier()
        if comm.rank == CULPRIT:
            kill(comm)
        elif mine is not None:
            with contextlib.suppress(PeerDied):
                mine.barrier()
            gone.set()
            os._exit(1)
        gone.wait()
        time.sleep(0.05)
        on_record(tmp_path, comm, lambda _: other.barrier())

    with pytest.raises(RankFailed):
        spawn(rank, 4, timeout_s=60)
    for survivor in (0, 3):
        kind, text, args, _ = recorded(tmp_path, survivor)
        assert (kind, args) == ("PeerDied", [2])
        assert text.startswith("rank 2 died")
        assert "first cause" not in text


def test_a_group_that_is_made_later_does_not_hear_of_it(tmp_path: Path) -> None:
    def rank(comm: Communicator) -> str:
        whole, mine = comm.duplicate(), pair(comm, 0, 1)
        comm.barrier()
        if mine is None:
            whole.abort("on purpose")
            return ""
        with pytest.raises(Exception, match="on purpose"):
            whole.barrier()
        later = mine.duplicate()
        later.barrier()
        if comm.rank == 1:
            later.close()
            return ""
        with pytest.raises(PeerDied, match="rank 1 left the group") as raised:
            later.barrier()
        return str(raised.value)

    text = spawn(rank, 3, timeout_s=60)[0]
    assert "first cause" not in text, text


def stopped(comm: Communicator, folder: str, heard: list[Event]) -> None:
    groups = {link: pair(comm, *link) for link in ((1, 2), (0, 1), (0, 3))}
    ids = comm.all_gather(np.array([os.getpid()]))
    for group in filter(None, groups.values()):
        group.set_timeout(1.0)
    if comm.rank == CULPRIT:
        os.kill(os.getpid(), signal.SIGSTOP)
        return
    link, peer = {1: ((1, 2), 1), 0: ((0, 1), 1), 3: ((0, 3), 0)}[comm.rank]
    mine = groups[link]
    assert mine is not None
    try:
        with contextlib.suppress(RuntimeError):
            on_record(Path(folder), comm, lambda _: mine.recv(X.copy(), peer))
    finally:
        heard[comm.rank].set()
        if comm.rank == 0:
            for each in (0, 1, 3):
                heard[each].wait()
            os.kill(int(ids[CULPRIT][0] if ids.ndim > 1 else ids[CULPRIT]), signal.SIGCONT)
        heard[0].wait()


def test_a_timeout_names_the_end_of_a_chain_of_waits(tmp_path: Path) -> None:
    spawn(stopped, 4, str(tmp_path), [Event() for _ in range(4)], timeout_s=60)
    for survivor in (0, 1, 3):
        kind, text, _, _ = recorded(tmp_path, survivor)
        assert kind == "TimedOut"
        cause = text.partition("; the first cause: ")[2]
        assert cause.startswith("rank 2 did not come: its process is stopped") or "waited 1 s for rank 2" not in text, (
            text
        )
        assert "rank 2" in cause, text


def test_a_timeout_names_the_wait_for_any_rank_at_the_end_of_a_chain(tmp_path: Path) -> None:
    """2 has sent 1 a message with a tag that 1 does not ask for; 1 waits for any rank, and 0 for 1."""

    def rank(comm: Communicator) -> None:
        if comm.rank == 2:
            comm.send(X, 1, tag=7)
        comm.barrier()
        comm.set_timeout(1.0)
        with contextlib.suppress(RuntimeError):
            acts: list[Act] = [lambda c: c.recv(X.copy(), 1), lambda c: c.recv(X.copy(), ANY, tag=6), lambda _: None]
            on_record(tmp_path, comm, acts[comm.rank])
        comm.set_timeout(60.0)
        comm.barrier()

    spawn(rank, 3, timeout_s=60)
    instead = "recv from any rank, tag 6 (a message of rank 2 with tag 7 has come and waits for its recv)"
    assert recorded(tmp_path, 1)[1] == f"rank 1 waited 1 s for its peers in {instead}"
    assert f"the first cause: rank 1 did not come: it waits in {instead}" in recorded(tmp_path, 0)[1]


@pytest.mark.parametrize("threads", [False, True])
def test_ranks_that_wait_for_each_other_are_told_so(threads: bool) -> None:
    heard = [Event(), Event()]

    def rank(comm: Communicator) -> str:
        comm.barrier()
        comm.set_timeout(0.5 + comm.rank)
        with pytest.raises(TimedOut) as raised:
            comm.recv(X.copy(), 1 - comm.rank)
        heard[comm.rank].set()
        heard[1 - comm.rank].wait()
        return str(raised.value)

    circle = "they wait for each other (rank 1 waits for rank 0 in recv from rank 0, tag 0)"
    assert spawn(rank, 2, threads=threads)[0].endswith(f"; the first cause: {circle}")


@pytest.mark.parametrize("threads", [False, True])
@pytest.mark.parametrize(
    ("act", "cause"), [(fail, "; the first cause: rank 2 failed with ValueError: boom"), (lambda c: c.close(), "")]
)
def test_who_waits_for_a_slow_rank_hears_of_one_that_left(act: Act, cause: str, threads: bool, tmp_path: Path) -> None:
    """0 is late; 1 and 3 wait for it, and 2 has left without their call."""
    heard = [Event(), Event()]

    def rank(comm: Communicator) -> None:
        comm.barrier()
        if comm.rank == CULPRIT:
            with contextlib.suppress(ValueError), comm:
                return act(comm)
        if comm.rank == 0:
            for each in heard:
                each.wait()
        try:
            on_record(tmp_path, comm, lambda c: c.broadcast(X.copy(), 0))
        except RuntimeError:
            if comm.rank:
                heard[comm.rank == 3].set()
        return None

    spawn(rank, 4, threads=threads, timeout_s=60)
    for survivor in (0, 1, 3):
        kind, text, args, naps = recorded(tmp_path, survivor)
        assert (kind, args) == ("PeerDied", [CULPRIT]), text
        left = r"rank 2 left the group while rank [13] waited for it in broadcast, call 2"
        assert re.fullmatch(left + re.escape(cause), text), text
        assert naps < 20 * Naps.A_SECOND
