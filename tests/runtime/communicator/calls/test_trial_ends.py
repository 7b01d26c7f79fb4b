"""Trials of calls in which a root sends: the root may run ahead of its receivers, so the times of both ends count."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest

from ringtree import Pool
from ringtree.plan.tuning import CallTuning
from ringtree.runtime.communicator.calls.decisions import Decision
from ringtree.runtime.communicator.calls.trials import IN_TURN, SPREADING, Trial
from ringtree.runtime.communicator.communicator import Communicator
from tests.runtime.communicator.calls.test_trials import READS

COUNT = 1 << 20  # elements of 4 bytes
TRIAL = len(IN_TURN) + SPREADING


@pytest.mark.parametrize(
    "own_s, theirs_s, expected",
    [
        ((2, 1), (1, 1), "single copies took 0.50"),
        ((1, 2), (4, 1), "single copies took 0.50"),
        ((2, 1), (1, 4), "single copies took 2.00"),
        ((2, 1), (inf, inf), "no trial had times of both ways"),
    ],
)
def test_the_slower_end_counts(own_s: tuple[int, int], theirs_s: tuple[float, float], expected: str) -> None:
    """By the seconds of both ways, staging and single copies."""
    trial = Trial(Decision("one_shot", CallTuning(), "predicted", CallTuning(single_copy=True)))
    for way in IN_TURN:
        trial.note(trial.count(), 1, own_s[way])
    trial.note_slowest(theirs_s)
    assert expected in trial.outcome().why


class Scripted:
    """The calls of a rank's engine, with the seconds of staging and of single copies that a test says."""

    def __init__(self, comm: Communicator, staged_s: float, single_s: float) -> None:
        self._endpoint, self._comm, self._work_s = comm._endpoint, comm, (staged_s, single_s)

    @property
    def calls(self) -> int:
        return self._endpoint.calls

    def run_timed(self, plan: int, input: int, output: int) -> float:
        (trial,) = self._comm._calls.selection.trials._trials.values()
        way = [*IN_TURN, *[1] * SPREADING][trial._calls - 1]  # of the call that has just been counted
        self._endpoint.run_timed(plan, input, output)
        return self._work_s[trial._ways[way].steps.single_copy]

    def start_timed(self, plan: int, input: int, output: int) -> int:
        return self._endpoint.start_timed(plan, input, output)

    def work_s(self, ticket: int) -> float | None:
        return self._endpoint.work_s(ticket)


def scattered(comm: Communicator, collective: str, root: int, times_s: list[tuple[float, float]], started: int) -> str:
    """Why later calls go as they do; `started`: a rank whose calls are started, all at once."""
    comm._calls.selection.trials._timed = Scripted(comm, *times_s[comm.rank])
    works = []
    for call in range(TRIAL + 2):
        whole = np.full(COUNT, call, np.float32)
        if collective == "broadcast":
            comm.broadcast(whole, root)
            continue
        out = np.empty(COUNT // comm.size, np.float32)
        work = comm.scatter(whole if comm.rank == root else None, root, out=out, async_op=comm.rank == started)
        works.append(work)
        assert comm.rank == started or (out == call).all()
    for work in works if comm.rank == started else ():
        work.wait()
    return comm.chosen(collective, COUNT, root=root).why


@READS
@pytest.mark.parametrize("root", [0, 1])
@pytest.mark.parametrize("collective", ["scatter", "broadcast"])
@pytest.mark.parametrize(
    "root_s, receiver_s, expected",
    [
        ((4, 1), (2, 2), "single copies took 0.50 of the time of staging"),
        ((1, 1), (1, 3), "single copies took 3.00 of the time of staging"),
        ((2, 1), (1, 2), "single copies took 1.00 of the time of staging"),
    ],
)
def test_both_ends_have_times(
    collective: str, root: int, root_s: tuple[float, float], receiver_s: tuple[float, float], expected: str
) -> None:
    with Pool(2, timeout_s=60) as pool:
        times_s = [receiver_s, root_s] if root else [root_s, receiver_s]
        found = pool.run(scattered, collective, root, times_s, -1)
    assert expected in found[0] and found[0] == found[1]


@READS
def test_a_receiver_without_times_leaves_the_prediction() -> None:
    with Pool(2, timeout_s=60) as pool:
        found = pool.run(scattered, "scatter", 0, [(4.0, 1.0), (2.0, 2.0)], 1)
    assert found[0] == found[1]
