"""A minute's part of `make chaos`; and that it finds what it looks for in an engine, or a program, that has it."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ringtree.runtime.bootstrap.local.socket_names import doorbell
from ringtree.runtime.bootstrap.local.unix_socket import connectionless
from ringtree.runtime.communicator.communicator import Communicator
from ringtree.runtime.engines.engine import GroupParameters
from tests.runtime.chaos import trial
from tests.runtime.chaos.__main__ import MOST_MISNAMED
from tests.runtime.chaos.blame import blamed
from tests.runtime.chaos.campaign import campaign
from tests.runtime.chaos.case import (
    BEFORE_ALL_HAVE_MET,
    IN_THE_SETUP,
    MOST_RANKS,
    MOST_THREADS,
    NOT_IN_TORCH,
    SHARES,
    Case,
    drawn,
    drawn_through_torch,
)
from tests.runtime.chaos.deviations import DEVIATIONS
from tests.runtime.chaos.leftovers import files
from tests.runtime.chaos.rank import Raised
from tests.runtime.chaos.summary import Summary, failure
from tests.runtime.chaos.verdict import Heard, Verdict
from tests.runtime.conftest import available
from tests.runtime.soak.player import Player
from tests.runtime.soak.script import CALLS, MIXES, Step, mix_of, steps
from tests.runtime.soak.through_torch import missing as missing_torch

TORCH_CASES = 10
TORCH_TIMEOUT_S = 8.0
"""Longer than the campaign's: torch takes its time on a busy machine."""
native = pytest.mark.skipif(not available("shm"), reason="the native engine is not built")


@native
@pytest.mark.parametrize("cases", [12, pytest.param(30, marks=pytest.mark.slow)])
def test_random_faults_hang_nobody_and_change_no_result(cases: int) -> None:
    """A few of seeds that nobody chose; `make chaos` plays 1,000."""
    first = int.from_bytes(os.urandom(4), "little")
    before, summary = files(), Summary()
    for verdict in campaign([drawn(first + number) for number in range(cases)], jobs=4):
        summary.add(verdict)
    assert not summary.failures(), summary.failures()
    assert not files() - before
    assert summary.errors > cases
    assert not (silent := [verdict.case.seed for verdict in summary.verdicts if verdict.silent]), silent
    assert len(summary.misnamed) <= MOST_MISNAMED * summary.errors, summary.misnamings()


@native
@pytest.mark.torch
def test_random_faults_of_ranks_that_call_torch_hang_nobody_and_change_no_result() -> None:
    if why := missing_torch():
        pytest.skip(why)
    first = int.from_bytes(os.urandom(4), "little")
    summary = Summary()
    cases = [drawn_through_torch(first + number) for number in range(TORCH_CASES)]
    for verdict in campaign(cases, jobs=2, timeout_s=TORCH_TIMEOUT_S):
        summary.add(verdict)
    assert not summary.failures(), summary.failures()
    assert summary.errors
    assert not (silent := [verdict.case.seed for verdict in summary.verdicts if verdict.silent]), silent


def test_a_campaign_through_torch_has_every_fault_that_torch_has() -> None:
    cases = [drawn_through_torch(seed) for seed in range(600)]
    assert {case.fault for case in cases} == {*SHARES, *DEVIATIONS} - {*NOT_IN_TORCH}
    assert all(0 <= case.at < len(case.script(0)) for case in cases)


QUIET = Case(0, 3, ("turns",), "pause", culprit=1, thread=0, at=5, delay_s=None, pause_s=0.01, leaves=False)
"""Three ranks with nothing but a short pause."""
KILLED = replace(QUIET, fault="kill")


def verdict_of(case: Case, timeout_s: float = 20.0) -> Verdict:
    [verdict] = campaign([case], 1, timeout_s)
    return verdict


@native
def test_a_death_is_named_by_all() -> None:
    verdict = verdict_of(KILLED)
    assert not failure(verdict), failure(verdict)
    assert [heard.rank for heard in verdict.heard] == [0, 2]
    assert not verdict.misnamed


def instead(monkeypatch: pytest.MonkeyPatch, name: str, rank: int, act: Callable[[Communicator, Any], Any]) -> None:
    """That method of a communicator, on that rank, returns what act(communicator, its result) returns."""
    whole = getattr(Communicator, name)

    def method(comm: Communicator, *args: Any, **options: Any) -> Any:
        result = whole(comm, *args, **options)
        return act(comm, result) if comm.rank == rank else result

    monkeypatch.setattr(Communicator, name, method)


kept: list[Any] = []


def leave_a_descriptor(*_: Any) -> None:
    kept.append(os.memfd_create("left"))


def leave_a_thread(*_: Any) -> None:
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()


def leave_a_process(*_: Any) -> None:
    subprocess.Popen(["sleep", "60"], start_new_session=True)


@native
@pytest.mark.parametrize(
    ("leave", "expected"),
    [
        (leave_a_descriptor, "rank 0: descriptor /memfd:left"),
        (leave_a_thread, "rank 0: 1 threads beside the main one"),
        (leave_a_process, " is left"),
    ],
)
def test_what_a_rank_leaves_is_found(
    monkeypatch: pytest.MonkeyPatch, leave: Callable[..., None], expected: str
) -> None:
    instead(monkeypatch, "close", 0, leave)
    assert expected in "".join(verdict_of(QUIET).left)


@native
def test_a_socket_that_somebody_holds_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = trial.parameters_of

    def of_one_key(*arguments: Any) -> list[GroupParameters]:
        return [p._replace(key=key) for p in whole(*arguments)]

    key = f"chaos {os.getpid()}"
    monkeypatch.setattr(trial, "parameters_of", of_one_key)
    with connectionless() as bell:
        bell.bind(doorbell(key, 1))
        assert verdict_of(QUIET).left == [f"socket of {key}"]


@native
def test_a_wrong_result_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    instead(monkeypatch, "all_reduce", 2, lambda _, result: result + 1)
    wrong = verdict_of(QUIET).wrong  # of the others, too: rank 2 ends
    assert any(text.startswith("rank 2, ") and "elements differ" in text for text in wrong)


@native
def test_a_barrier_that_lets_a_survivor_through_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Communicator, "barrier", lambda *_, **__: None)
    monkeypatch.setattr(Player, "step", lambda *_: None)
    assert any("got past the last barrier of all" in wrong for wrong in verdict_of(KILLED).wrong)


@native
def test_a_rank_that_hangs_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rank 2 does not return from its first call to leave."""
    monkeypatch.setattr(trial, "MARGIN_S", 0.5)
    instead(monkeypatch, "close", 2, lambda *_: time.sleep(60))
    [hang] = verdict_of(KILLED, timeout_s=1.0).hangs
    assert hang.startswith("rank 2 (process ")


@native
def test_a_thread_that_plays_on_is_no_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thread 1 takes longer for its script than an error of thread 0 may take."""
    monkeypatch.setattr(trial, "MARGIN_S", 0.5)
    play = Player.step

    def slow(player: Player, number: int, step: Step) -> None:
        time.sleep(0.15 if number >= CALLS else 0.0)
        play(player, number, step)

    monkeypatch.setattr(Player, "step", slow)
    verdict = verdict_of(replace(QUIET, mixes=("turns", "turns"), fault="skipped call"), timeout_s=2.0)
    assert not failure(verdict), failure(verdict)
    assert verdict.took_s > 3.0


@native
def test_a_wrong_name_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine's names of ranks are each another's."""
    whole = trial.parameters_of

    def renamed(*arguments: Any) -> list[GroupParameters]:
        return [p._replace(names=p.names[1:] + p.names[:1]) for p in whole(*arguments)]

    monkeypatch.setattr(trial, "parameters_of", renamed)
    verdict = verdict_of(KILLED)
    assert [heard.named for heard in verdict.misnamed] == [{2}, {2}]


def test_a_second_death_counts_beside_a_rank_that_stands_still() -> None:
    def misnamed(fault: str, text: str) -> int:
        case = replace(KILLED, fault=fault, culprit=1, second=(2, 0.0))
        raised = Raised(0, 0, "barrier", "PeerDied", text, 0.0)
        return len(Verdict(case, heard=[Heard(0, raised, 0.1, frozenset(blamed(text)))]).misnamed)

    died, waited = "rank 2 died (process 7 ended) while rank 0 waited for it", "rank 0 waited 3 s for rank 2 in barrier"
    assert [misnamed(fault, text) for text in (died, waited) for fault in ("stop", "kill")] == [0, 1, 1, 1]


@native
def test_an_error_without_a_fault_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pause that is longer than the group's timeout."""
    verdict = verdict_of(replace(QUIET, pause_s=1.5), timeout_s=0.5)
    assert any("raised without a fault: TimedOut" in wrong for wrong in verdict.wrong)


@pytest.mark.parametrize(
    ("text", "ranks"),
    [
        ("rank 2 died (process 7 ended) while rank 0 waited for rank 1 in barrier, call 2", {2}),
        ("rank 2 left the group while rank 0 waited for it in barrier, call 2", {2}),
        ("every other rank left the group while rank 0 waited for it in recv from any rank, tag 1", set()),
        ("this group failed before (rank 4 aborted the group: why); close it and make another", {4}),
        ("rank 0 waited 3 s for rank 5 in barrier, call 7", {5}),
        ("rank 0 waited 0.5 s for its peers in split", set()),
        ("rank 0 waited 3 s for rank 5 in recv from rank 5, tag 6 (a message of rank 5 with tag 7 has come …)", {0, 5}),
        ("rank 1 waited 3 s for rank 0 in barrier, call 1; the first cause: rank 0 did not come: it waits in recv from "
         "any rank, tag 6 (a message of rank 2 with tag 7 has come …)", {0, 2}),
        ("rank 1 left the group while rank 0 waited for it in barrier, call 1; the first cause: rank 1 waited 3 s for "
         "rank 4 in recv from rank 4, tag 6, as they wait for each other (rank 4 waits for rank 1 in recv from rank 1, "
         "tag 8 (a message of rank 1 with tag 7 has come …))", {1, 4}),
        ("rank 3 waited 3 s for rank 0 in split; the first cause: they wait for each other (rank 0 waits for rank 1 in "
         "split, rank 1 waits for rank 4 in recv from rank 4, tag 8 (a message of rank 4 with tag 7 has come …))",
         {1, 4}),
        ("rank 3 called barrier() as call 1 while rank 0 called gather(int8, root 2) as call 1", {0, 3}),
        ("rank 3 sent 8 bytes of int8 with tag 1 where rank 0 receives 9 bytes of int8", {0, 3}),
        ("rank 0 asks for a split, rank 2 for a duplicate; expected the same", {0, 2}),
        ("ranks 1, 3 did not come to the group of 4 ranks within 3 s", {1, 3}),
        ("group([1, 2]): rank 2 did not come to the group within 3 s; expected ranks 1, 2 to make it alike", {2}),
        ("rank 1 is out of reach (it has been silent for 3 s) while rank 0 waited for it in barrier, call 2", {1}),
        ("rank 1 left the group while rank 0 waited for it in barrier, call 2, because rank 3 died", {3}),
    ],
)  # fmt: skip
def test_whom_a_text_blames(text: str, ranks: set[int]) -> None:
    assert blamed(text) == ranks


def test_a_campaign_has_every_fault() -> None:
    cases = [drawn(seed) for seed in range(1000)]
    assert {case.fault for case in cases} == {*SHARES, *DEVIATIONS}
    assert {case.ranks for case in cases} == set(range(2, MOST_RANKS + 1))
    assert {case.threads for case in cases} == set(range(1, MOST_THREADS + 1))
    assert {mix for case in cases for mix in case.mixes} == set(MIXES)
    assert {case.at for case in cases} == {BEFORE_ALL_HAVE_MET, IN_THE_SETUP, *range(CALLS)}


def test_a_seed_stands_for_its_case() -> None:
    for seed in (0, 5, 1 << 32):
        assert drawn(seed) == drawn(seed) != drawn(seed + 1)
        assert drawn(seed).script(0) == drawn(seed).script(0)


@pytest.mark.parametrize("name", list(DEVIATIONS))
def test_a_deviation_changes_what_a_rank_does(name: str) -> None:
    found = 0
    for chapter in range(20):
        script = list(steps(1, chapter, mix_of(1, chapter)))
        for at in range(len(script)):
            changed = DEVIATIONS[name](script, at, 3, 1)
            if changed is not None:
                found += 1
                assert changed != script[at:]
    assert found
