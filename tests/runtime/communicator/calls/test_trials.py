"""Trials of two ways to move bytes: the outcome of times, and that ranks take the same way in each call."""

from __future__ import annotations

import numpy as np
import pytest

from ringtree import Pool, _native
from ringtree.plan.tuning import CallTuning
from ringtree.runtime.communicator.calls.decisions import Decision
from ringtree.runtime.communicator.calls.trials import IN_TURN, OUTCOME, Trial
from ringtree.runtime.communicator.communicator import Communicator
from tests.runtime.conftest import Pools

READS = pytest.mark.skipif(not _native.reads_Bps(), reason="the kernel lets no process read another's memory here")
STAGED, UNSTAGED = CallTuning(), CallTuning(single_copy=True)
LONG = 12 << 17  # elements of 4 bytes: 6 MiB, for 2, 3 and 4 ranks


@pytest.mark.parametrize(
    "seconds, expected",
    [
        ([9, 2, 2, 9, 1, 1], UNSTAGED),
        ([0, 2, 2, 9, 1, 1], UNSTAGED),  # the first call of a way does not compete
        ([9, 1, 1, 0, 2, 2], STAGED),
        ([9, 1, 1, 9, 0.95, 0.95], STAGED),  # by less than they differ anyway
        ([9, 2, 9, 9, 8, 1], UNSTAGED),  # the least of each
        ([9, None, 2, None, 1, None], UNSTAGED),
        ([9, None, None, 9, 1, 1], STAGED),
        ([9, 2, 2, 1, None, None], STAGED),
        ([None] * 6, STAGED),
    ],
)
def test_the_quicker_way_is_the_outcome(seconds: list[float | None], expected: CallTuning) -> None:
    trial = Trial(Decision("one_shot", STAGED, "predicted"), Decision("one_shot", UNSTAGED, "predicted"))
    for took_s, way in zip(seconds, IN_TURN, strict=True):
        assert not trial.is_over and trial.way == way
        trial.note(100, took_s)
    assert trial.is_over and not trial.is_settled
    outcome = trial.outcome()
    assert outcome.steps == expected
    trial.settle(outcome)
    assert trial.decision == outcome and trial.is_settled and trial.way == OUTCOME


def test_times_count_by_byte() -> None:
    """Calls of one kind differ by up to twice in their bytes."""
    trial = Trial(Decision("one_shot", STAGED, ""), Decision("one_shot", UNSTAGED, ""))
    for nbytes, took_s in ((1, 9), (100, 2), (100, 2), (1, 9), (200, 3), (200, 3)):
        trial.note(nbytes, took_s)
    assert trial.outcome().why == "single copies took 0.75 of the time of staging in this group's first calls"


def ways(comm: Communicator) -> list[bool]:
    """Whether each of nine calls is a single copy; right results, and arrays of two types."""
    found = []
    for call in range(9):
        dtype = np.float32 if call % 2 else np.int32
        x = (np.arange(LONG) % 1000 + 7 * comm.rank + call).astype(dtype)
        found.append(comm.chosen("all_to_all", LONG, dtype).part.single_copy)
        out = comm.all_to_all(x)
        n = LONG // comm.size
        for peer, block in enumerate(out.reshape(comm.size, n)):
            mine = np.arange(comm.rank * n, (comm.rank + 1) * n) % 1000
            assert np.array_equal(block, (mine + 7 * peer + call).astype(dtype))
    return found


@READS
@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_all_ranks_take_both_ways_in_turn_and_then_one(ranks: int) -> None:
    with Pool(ranks, timeout_s=60) as pool:
        first, *others = pool.run(ways)
    assert others == [first] * (ranks - 1)
    predicted = first[0]
    assert first[: len(IN_TURN)] == [predicted ^ bool(way) for way in IN_TURN]
    assert len(set(first[len(IN_TURN) :])) == 1


def mixed(comm: Communicator, seed: int) -> None:
    """Calls of three kinds in any order, some asynchronous, some of unequal blocks; each rank forgets plans of its
    own."""
    rng, own = np.random.default_rng(seed), np.random.default_rng([seed, comm.rank])
    works = []
    for call in range(30):
        count = [LONG // 2, LONG // 2 - 3 * comm.size, LONG, 2 * LONG][rng.integers(4)] // comm.size * comm.size
        way = rng.integers(3)
        if own.integers(3) == 0:
            comm._calls.settle()
            comm._calls.plans.forget_all()
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
@pytest.mark.parametrize("seed", range(3))
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
        ("scatter", LONG, False),  # the root only sends
        ("gather", LONG, False),
        ("all_reduce", LONG, False),
        ("barrier", 1, False),
    ],
)
def test_what_is_tried(pools: Pools, collective: str, count: int, expected: bool) -> None:
    assert pools("shm", 2).run(tried, collective, count) == [expected] * 2


@READS
def test_bytes_that_go_to_several_ranks_are_not_tried(pools: Pools) -> None:
    assert not any(pools("shm", 3).run(tried, "all_gather", LONG))


def silent(comm: Communicator) -> list[bool]:
    """The ways where one rank's times alone are fit to decide: the others call asynchronously."""
    x, found = np.zeros(LONG, np.float32), []
    for _ in range(8):
        found.append(comm.chosen("all_to_all", LONG).part.single_copy)
        work = comm.all_to_all(x, async_op=comm.rank > 0)
        if comm.rank:
            work.wait()
    return found


@READS
def test_ranks_that_measured_nothing_go_the_same_way(pools: Pools) -> None:
    first, second = pools("shm", 2).run(silent)
    assert first == second
