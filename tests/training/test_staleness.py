"""The rule of bounded staleness, whatever comes when."""

from __future__ import annotations

from math import inf

from hypothesis import given
from hypothesis import strategies as st

from ringtree.training.strategies.asynchronous.staleness import UPDATE, UpdateEvent, UpdateOrder

BOUNDS = st.sampled_from([0, 1, 2, 4, inf])
TURNS = st.lists(st.integers(0, 3), max_size=200)


class Play:
    """Workers that read, push, read … whenever it is their turn and they do not wait for a read."""

    def __init__(self, workers: int, bound: float, gathered: int) -> None:
        self.workers, self.bound = workers, bound
        self.order = UpdateOrder(workers, bound, gathered)
        self.log: list[UpdateEvent] = []
        self.clocks, self.waits, self.computes = [0] * workers, [False] * workers, [False] * workers

    def turn(self, worker: int) -> None:
        if self.computes[worker]:
            self.computes[worker] = False
            self.clocks[worker] += 1
            self._happens(self.order.push(worker))
        elif not self.waits[worker]:
            self.waits[worker] = True
            self._happens(self.order.ask(worker))

    def _happens(self, entries: list[UpdateEvent]) -> None:
        self.log += entries
        for entry in entries:
            if entry.staleness != UPDATE:
                self.waits[entry.worker], self.computes[entry.worker] = False, True


def _check(log: list[UpdateEvent], workers: int, bound: float) -> None:
    """Every read has all updates before its clock less the bound, and none from its clock and the bound on."""
    applied, reads = [0] * workers, [0] * workers
    for worker, staleness in log:
        if staleness == UPDATE:
            applied[worker] += 1
            continue
        clock = reads[worker]
        assert staleness == clock - min(applied) <= bound
        assert max(applied) <= clock + bound
        reads[worker] += 1


@given(st.integers(1, 4), BOUNDS, st.booleans(), TURNS)
def test_no_read_is_staler_than_the_bound(workers: int, bound: float, gather: bool, turns: list[int]) -> None:
    play = Play(workers, bound, workers if gather or bound == 0 else 1)
    for turn in turns:
        play.turn(turn % workers)
    _check(play.log, workers, bound)


@given(st.integers(1, 4), BOUNDS, st.booleans(), TURNS)
def test_nobody_waits_for_ever(workers: int, bound: float, gather: bool, turns: list[int]) -> None:
    """However far they have come, all get to the same clock in the end, and everything is applied."""
    play = Play(workers, bound, workers if gather or bound == 0 else 1)
    for turn in turns:
        play.turn(turn % workers)
    until = max(play.clocks) + 1
    while min(play.clocks) < until:
        before = sum(play.clocks) + len(play.log)
        for worker in range(workers):
            if play.clocks[worker] < until:
                play.turn(worker)
        assert sum(play.clocks) + len(play.log) > before
    assert sum(entry.staleness == UPDATE for entry in play.log) == workers * until


@given(TURNS)
def test_a_bound_of_0_is_synchronous(turns: list[int]) -> None:
    """All read, then all updates in the order of workers, and again."""
    play = Play(4, 0, 4)
    for turn in turns:
        play.turn(turn)
    for k, (worker, staleness) in enumerate(play.log):
        if k % 8 < 4:
            assert staleness == 0
        else:
            assert (worker, staleness) == (k % 4, UPDATE)


def test_the_bound_is_reached() -> None:
    """By a worker beside one that does nothing, and then it waits."""
    play = Play(2, 3, 1)
    for _ in range(20):
        play.turn(0)
    assert [entry.staleness for entry in play.log if entry.staleness != UPDATE] == [0, 1, 2, 3]
    assert play.waits[0]


def test_an_update_waits_for_a_read_that_may_not_have_it() -> None:
    """Worker 0 has pushed those of clocks 0 and 1; worker 1's first read may have the former only."""
    play = Play(2, 1, 1)
    for turn in (0, 0, 0, 0, 1):
        play.turn(turn)
    assert play.log == [UpdateEvent(0, 0), UpdateEvent(0), UpdateEvent(0, 1), UpdateEvent(1, 0), UpdateEvent(0)]
