"""Trials of two ways to move bytes: the outcome of times, and that ranks take the same way in each call."""

from __future__ import annotations

import signal
import time
from typing import Any

import numpy as np
import pytest

from ringtree import Pool, RankFailed, _native
from ringtree.plan.tuning import CallTuning
from ringtree.price.memory import BUILT_IN, SharedMemory
from ringtree.runtime.communicator.calls import decisions
from ringtree.runtime.communicator.calls.decisions import Decision, Decisions
from ringtree.runtime.communicator.calls.trials import IN_TURN, MOST_TRIES, OUTCOME, SPREADING, Trial
from ringtree.runtime.communicator.communicator import Communicator
from ringtree.runtime.engines.engine import GroupParameters
from tests.runtime.conftest import Pools

READS = pytest.mark.skipif(not _native.reads_Bps(), reason="the kernel lets no process read another's memory here")
STAGED, UNSTAGED = CallTuning(), CallTuning(single_copy=True)
ROOT = 1
LONG = 12 << 17  # elements of 4 bytes: 6 MiB, for 2, 3 and 4 ranks


def a_trial() -> Trial:
    return Trial(Decision("one_shot", STAGED, "predicted", UNSTAGED))


@pytest.mark.parametrize(
    "predicted, other, expected",
    [
        ([9, 2, 2], [9, 1, 1], UNSTAGED),
        ([0, 2, 2], [9, 1, 1], UNSTAGED),  # the first call of a way does not compete
        ([9, 1, 1], [0, 2, 2], STAGED),
        ([9, 1, 1], [9, 0.95, 0.95], STAGED),  # by less than they differ anyway
        ([9, 2, 9], [9, 8, 1], UNSTAGED),  # the least of each
        ([9, 9, 9, 9, 9, 1], [9, 9, 9, 9, 2], STAGED),
        ([9, None, 2], [None, 1], UNSTAGED),
    ],
)
def test_the_quicker_way_is_the_outcome(
    predicted: list[float | None], other: list[float | None], expected: CallTuning
) -> None:
    """By the seconds of each way's first calls; nobody looked at the others."""
    trial = a_trial()
    taken = iter(predicted), iter(other)
    for way in IN_TURN:
        assert not trial.is_measured and trial.way == way
        seconds, compared = next(taken[way], None), trial.count()
        if seconds is not None:
            trial.note(compared, 100, seconds)
    assert trial.is_measured and not trial.is_settled
    outcome = trial.outcome()
    assert outcome.steps == expected
    trial.settle(outcome)
    for _ in range(SPREADING):
        assert not trial.is_over and trial.decision.steps == UNSTAGED
        trial.count()
    trial.begin_again()
    assert trial.decision == outcome == trial.outcome() and trial.is_over and trial.way == OUTCOME


@pytest.mark.parametrize("goes_on", [True, False])
@pytest.mark.parametrize("timed", [(), (0,), (1,)])
def test_both_ways_are_tried_again_where_one_has_no_time(timed: tuple[int, ...], goes_on: bool) -> None:
    """A few trials long, while calls go on whose times may come; then the prediction holds."""
    trial = a_trial()
    for turn in range(MOST_TRIES if goes_on else 1):
        assert trial.tries == turn and not trial.is_settled
        for way in IN_TURN:
            assert trial.way == way
            compared = trial.count()
            if way in timed:
                trial.note(compared, 100, 1.0)
            elif goes_on:
                trial.note_later(compared, 100, turn)
        assert trial.outcome() == trial.unmeasured(goes_on)
        trial.settle(trial.outcome())
        for _ in range(SPREADING):
            assert trial.decision.steps == UNSTAGED
            trial.count()
        trial.begin_again()
    assert trial.decision == Decision("one_shot", STAGED, "predicted; no trial had times of both ways")
    assert trial.way == OUTCOME


def test_times_count_by_byte() -> None:
    """Calls of one kind differ by up to twice in their bytes; those that go on are asked for theirs at the end."""
    trial = a_trial()
    for way in IN_TURN:
        trial.note(trial.count(), *((200, 3) if way else (100, 2)))
    assert trial.outcome().why == "single copies took 0.75 of the time of staging in this group's first calls"
    started = a_trial()
    for ticket, way in enumerate(IN_TURN):
        started.note_later(started.count(), 200 if way else 100, ticket)
    asked: list[int] = []

    def work_s(ticket: int) -> float | None:
        asked.append(ticket)
        return None if len(asked) % 2 else 1.0 + IN_TURN[ticket]

    started.hear(work_s)
    started.hear(work_s)
    compared = {n for n, way in enumerate(IN_TURN) if n != IN_TURN.index(way)}
    assert set(asked) == compared and started.outcome() == trial.outcome()._replace(
        steps=STAGED, why="single copies took 1.00 of the time of staging in this group's first calls"
    )


def test_a_call_that_did_not_begin_is_taken_back() -> None:
    trial = a_trial()
    assert (trial.count(), trial.count()) == (None, 0)
    trial.take_back()
    assert trial.count() == 0


def all_to_all(comm: Communicator, call: int, dtype: type) -> None:
    n = LONG // comm.size
    out = comm.all_to_all((np.arange(LONG) % 1000 + 7 * comm.rank + call).astype(dtype))
    mine = np.arange(comm.rank * n, (comm.rank + 1) * n) % 1000
    for peer, block in enumerate(out.reshape(comm.size, n)):
        assert np.array_equal(block, (mine + 7 * peer + call).astype(dtype))


def all_gather(comm: Communicator, call: int, dtype: type) -> None:
    out = comm.all_gather(np.full(LONG // comm.size, 7 * comm.rank + call, dtype))
    assert np.array_equal(out[:, -1], 7 * np.arange(comm.size) + call)


def scatter(comm: Communicator, call: int, dtype: type) -> None:
    x = (np.arange(LONG) % 1000 + call).astype(dtype) if comm.rank == ROOT else None
    out = comm.scatter(x, ROOT, out=np.empty(LONG // comm.size, dtype))
    assert out[-1] == ((comm.rank + 1) * (LONG // comm.size) - 1) % 1000 + call


def gather(comm: Communicator, call: int, dtype: type) -> None:
    out = comm.gather(np.full(LONG // comm.size, 7 * comm.rank + call, dtype), ROOT)
    if comm.rank == ROOT:
        assert np.array_equal(out[:, -1], 7 * np.arange(comm.size) + call)


def broadcast(comm: Communicator, call: int, dtype: type) -> None:
    x = np.full(LONG, call if comm.rank == ROOT else -1, dtype)
    comm.broadcast(x, ROOT)
    assert x[-1] == call


def all_reduce(comm: Communicator, call: int, dtype: type) -> None:
    """In place, as gradients are summed."""
    x = (np.arange(LONG) % 1000 + 7 * comm.rank + call).astype(dtype)
    comm.all_reduce(x, out=x)
    assert np.array_equal(x, (np.arange(LONG) % 1000 * 2 + 7 + 2 * call).astype(dtype))


def reduce_scatter(comm: Communicator, call: int, dtype: type) -> None:
    out = comm.reduce_scatter((np.arange(LONG) % 1000 + 7 * comm.rank + call).astype(dtype))
    mine = np.arange(LONG).reshape(comm.size, -1)[comm.rank] % 1000
    assert np.array_equal(out, (mine * 2 + 7 + 2 * call).astype(dtype))


CALLS = {f.__name__: f for f in (all_to_all, all_gather, scatter, gather, broadcast, all_reduce, reduce_scatter)}
TRIAL = len(IN_TURN) + SPREADING


def ways(comm: Communicator, collective: str) -> tuple[list[bool], str]:
    """Whether each call of a trial, and of three after it, is a single copy, of arrays of two types; and why."""
    found = []
    with comm.duplicate() as group:
        for call in range(TRIAL + 3):
            dtype = np.float32 if call % 2 else np.int32
            found.append(group.chosen(collective, LONG, dtype, root=ROOT).part.single_copy)
            CALLS[collective](group, call, dtype)
        return found, group.chosen(collective, LONG, np.float32, root=ROOT).why


@READS
@pytest.mark.parametrize(
    "collective, ranks",
    [
        *((collective, 2) for collective in CALLS),
        *((collective, 3) for collective in ("all_to_all", "scatter", "gather")),
        *(pytest.param(collective, 4, marks=pytest.mark.slow) for collective in ("all_to_all", "scatter", "gather")),
    ],
)
def test_all_ranks_take_both_ways_in_turn_and_then_one(pools: Pools, collective: str, ranks: int) -> None:
    (first, why), *others = pools("shm", ranks).run(ways, collective)
    assert [found for found, _ in others] == [first] * (ranks - 1)
    predicted = first[0]
    assert first[:TRIAL] == [predicted ^ bool(way) for way in IN_TURN] + [True] * SPREADING
    assert len(set(first[TRIAL:])) == 1
    assert "single copies took" in why and {other for _, other in others} == {why}


class Alarm(Exception):
    """Of a signal's handler."""


def alarmed(comm: Communicator) -> bool:
    """Rank 1's third call waits for rank 0, which comes late; meanwhile an alarm rings, whose handler raises once the
    call has been made. Whether it did: on a busy machine the alarm may ring before the call, or the wait take so long
    that the handler ends it."""

    def ring(*_: Any) -> None:
        raise Alarm

    signal.signal(signal.SIGALRM, ring)
    for call in range(2):
        all_to_all(comm, call, np.int32)
    x, out, made = np.zeros(LONG, np.int32), np.empty(LONG, np.int32), comm._endpoint.calls
    comm.barrier()
    try:
        if comm.rank == 0:
            time.sleep(0.02)
        else:
            signal.setitimer(signal.ITIMER_REAL, 0.005)
        comm.all_to_all(x, out=out)
        return comm.rank == 0
    except Alarm:
        if comm._endpoint.calls == made + 1:
            comm.abort("the alarm rang before the call")
        return True


def goes_on(comm: Communicator) -> None:
    for call in range(TRIAL):
        all_to_all(comm, call, np.int32)


@READS
def test_a_call_after_which_a_handler_raises_is_counted() -> None:
    for _ in range(20):
        with Pool(2, timeout_s=60) as pool:
            try:
                came = pool.run(alarmed)
            except RankFailed:
                continue
            if came == [True, True]:
                pool.run(goes_on)
                return
    raise AssertionError("no handler raised after a call")


def mixed(comm: Communicator, seed: int) -> None:
    """Calls of several kinds in any order, some asynchronous, some of unequal blocks; each rank forgets plans of its
    own."""
    rng, own = np.random.default_rng(seed), np.random.default_rng([seed, comm.rank])
    works = []
    for call in range(50):
        count = [LONG // 2, LONG // 2 - 3 * comm.size, LONG, 2 * LONG][rng.integers(4)] // comm.size * comm.size
        way = rng.integers(5)
        if own.integers(3) == 0:
            comm._calls.settle()
            comm._calls.plans.forget_all()
        if way > 2:
            (scatter if way == 3 else gather)(comm, call, np.float32)
            continue
        if way == 2:
            parts = np.full((comm.size, comm.size), count // comm.size)
            got = comm.all_to_all_v(np.full(count, comm.rank + call, np.float32), parts)
            assert np.array_equal(np.unique(got), np.arange(comm.size) + call)
            continue
        work = comm.all_to_all(np.full(count, comm.rank + call, np.float32), async_op=bool(way))
        works.append((call, work if way else None, None if way else work))
    for call, work, got in works:
        got = work.result() if work is not None else got
        assert np.array_equal(np.unique(got), np.arange(comm.size) + call)


@READS
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow)])
def test_calls_of_many_kinds_and_forgotten_plans(seed: int) -> None:
    with Pool(3, timeout_s=60) as pool:
        pool.run(mixed, seed)


def tried(comm: Communicator, collective: str, count: int) -> bool:
    return "the first calls try it" in comm.chosen(collective, count).why


@READS
@pytest.mark.parametrize(
    "collective, count, expected",
    [
        ("all_to_all", LONG, True),
        ("all_gather", LONG, True),
        ("all_to_all", LONG // 64, False),  # short
        ("scatter", LONG, True),
        ("gather", LONG, True),
        ("all_reduce", LONG, True),
        ("reduce_scatter", LONG, True),
        ("all_reduce", LONG // 64, False),
        ("reduce", LONG, False),  # one rank sums
        ("scan", LONG, False),
        ("barrier", 1, False),
    ],
)
def test_what_is_tried(pools: Pools, collective: str, count: int, expected: bool) -> None:
    assert pools("shm", 2).run(tried, collective, count) == [expected] * 2


class OwnMemo:
    """The memo of the rank that decides for all."""

    def known(self, key: int) -> bytes | bool | None:
        return True

    def missing_claimant(self, key: int) -> int:
        return -1

    def publish(self, key: int, value: bytes) -> bool:
        return True

    def check_liveness(self, what: str, ranks: list[int], absent: list[int]) -> None:
        pass


@pytest.mark.parametrize(
    "collective, symmetric, tuned, expected",
    [
        ("all_reduce", False, False, True),
        ("all_reduce", True, False, False),  # a sum in memory that all reach is not staged
        ("all_reduce", False, True, True),  # `ringtree tune` prices no sums of single copies
        ("all_gather", False, False, True),
        ("all_gather", False, True, False),  # it has measured both ways
    ],
)
def test_two_ways_are_tried_where_no_measurement_knows(
    monkeypatch: pytest.MonkeyPatch, collective: str, symmetric: bool, tuned: bool, expected: bool
) -> None:
    monkeypatch.setattr(decisions, "_decided", {})
    group = GroupParameters("nowhere", 0, ("0", "1"), timeout_s=0.01, cost=BUILT_IN if tuned else None)
    memory = SharedMemory(2, 8, 1 << 17, BUILT_IN, single_copy_bytes=1 << 22)
    found = Decisions(OwnMemo()).decide(group, collective, -1, 1 << 22, memory, symmetric=symmetric)
    assert (found.other is not None) == expected


@READS
def test_bytes_that_go_to_several_ranks_are_not_tried(pools: Pools) -> None:
    assert not any(pools("shm", 3).run(tried, "all_gather", LONG))


def silent(comm: Communicator) -> list[bool]:
    """The ways where one rank's times alone are fit to decide: the others call asynchronously."""
    x, found = np.zeros(LONG, np.float32), []
    for _ in range(TRIAL + 2):
        found.append(comm.chosen("all_to_all", LONG).part.single_copy)
        work = comm.all_to_all(x, async_op=comm.rank > 0)
        if comm.rank:
            work.wait()
    return found


def started(comm: Communicator, at_once: int) -> str:
    """As torch makes them for gradients, so many at once."""
    arrays = [np.zeros(LONG, np.float32) for _ in range(at_once)]
    for _ in range(MOST_TRIES * TRIAL // at_once):
        for work in [comm.all_reduce(x, out=x, async_op=True) for x in arrays]:
            work.wait()
    return comm.chosen("all_reduce", LONG).why


@READS
@pytest.mark.parametrize("at_once", [1, TRIAL])
def test_calls_that_are_started_have_times(pools: Pools, at_once: int) -> None:
    first, second = pools("shm", 2).run(started, at_once)
    assert "single copies took" in first and first == second


def promised(comm: Communicator) -> None:
    """A call with a promise behind the last of a trial, which one rank knows the outcome of."""
    x = np.ones(LONG, np.float32)
    for _ in range(TRIAL):
        comm.all_reduce(x, async_op=True)
    for _ in range(TRIAL):
        assert (comm.all_reduce(x, deterministic="rank_order") == 2).all()
        comm.all_reduce(x)


@READS
def test_calls_in_rank_order_are_apart_from_the_trial() -> None:
    with Pool(2, timeout_s=60) as pool:
        pool.run(promised)


@READS
def test_ranks_that_measured_nothing_go_the_same_way(pools: Pools) -> None:
    first, second = pools("shm", 2).run(silent)
    assert first == second
