"""Trials of calls with a root: it has other work than its peers, so the times of both ends count."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest

from ringtree.plan.tuning import CallTuning
from ringtree.runtime.communicator.calls.decisions import Decision
from ringtree.runtime.communicator.calls.trials import IN_TURN, SPREADING, Trial
from ringtree.runtime.communicator.communicator import Communicator
from tests.runtime.communicator.calls.test_trials import READS
from tests.runtime.conftest import Pools

COUNT = 1 << 20  # elements of 4 bytes
TRIAL = len(IN_TURN) + SPREADING


@pytest.mark.parametrize(
    "root_s, peer_s, peers, cores, expected",
    [
        ((2, 1), (1, 1), 1, 2, "single copies took 0.50"),
        ((1, 2), (4, 1), 1, 2, "single copies took 0.50"),
        ((2, 1), (1, 4), 1, 2, "single copies took 2.00"),
        ((2, 1), (inf, inf), 1, 2, "predicted"),  # they may come in a further trial
        ((2, 1), (0, 1), 3, 2, "single copies took 1.00"),  # 2 of the root, and 4 of all on 2 cores
        ((2, 1), (0, 1), 3, 4, "single copies took 0.50"),
        ((4, 1), (2, 1), 7, 2, "single copies took 0.44"),  # 18 and 8 on 2 cores
        ((4, 1), (2, 1), 7, 8, "single copies took 0.25"),
        ((1, 1), (1, 3), 1, 1, "single copies took 2.00"),
    ],
)
def test_the_slower_end_and_the_work_of_all_count(
    root_s: tuple[int, int], peer_s: tuple[float, float], peers: int, cores: int, expected: str
) -> None:
    """By the seconds of both ways, staging and single copies."""
    trial = Trial(Decision("one_shot", CallTuning(), "predicted", CallTuning(single_copy=True)))
    for way in IN_TURN:
        trial.note(trial.count(), 1, root_s[way])
    trial.note_peers(peer_s, peers, cores)
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


def moved(
    comm: Communicator, collective: str, root: int, times_s: list[tuple[float, float]], cores: int, started: int = -1
) -> str:
    """Why later calls of a new group go as they do; `started`: a rank whose calls are started, all at once."""
    with comm.duplicate() as group:
        return moved_in(group, collective, root, times_s, cores, started)


def moved_in(
    comm: Communicator, collective: str, root: int, times_s: list[tuple[float, float]], cores: int, started: int
) -> str:
    trials = comm._calls.selection.trials
    trials._timed, trials._cores = Scripted(comm, *times_s[comm.rank]), cores
    works, is_root, is_started = [], comm.rank == root, comm.rank == started
    for call in range(TRIAL + 2):
        whole, block = np.full(COUNT, call, np.float32), np.full(COUNT // comm.size, call, np.float32)
        if collective == "broadcast":
            comm.broadcast(whole, root)
        elif collective == "gather":
            works.append(comm.gather(block, root, out=whole if is_root else None, async_op=is_started))
        else:
            works.append(comm.scatter(whole if is_root else None, root, out=block, async_op=is_started))
        assert is_started or ((whole == call).all() and (block == call).all())
    for work in works if is_started else ():
        work.wait()
    return comm.chosen(collective, COUNT, root=root).why


@READS
@pytest.mark.parametrize("root", [0, 1])
@pytest.mark.parametrize("collective", ["scatter", "broadcast", "gather"])
@pytest.mark.parametrize(
    "root_s, peer_s, expected",
    [
        ((4, 1), (2, 2), "single copies took 0.50 of the time of staging"),
        ((1, 1), (1, 3), "single copies took 3.00 of the time of staging"),
        ((2, 1), (1, 2), "single copies took 1.00 of the time of staging"),
    ],
)
def test_both_ends_have_times(
    pools: Pools, collective: str, root: int, root_s: tuple[float, float], peer_s: tuple[float, float], expected: str
) -> None:
    times_s = [peer_s, root_s] if root else [root_s, peer_s]
    found = pools("shm", 2).run(moved, collective, root, times_s, 2)
    assert expected in found[0] and found[0] == found[1]


@READS
@pytest.mark.parametrize("root", [0, 2])
@pytest.mark.parametrize("collective", ["scatter", "gather"])
@pytest.mark.parametrize("cores, expected", [(1, 1.5), (2, 0.75), (4, 0.5)])
def test_the_cores_do_the_work_of_all(pools: Pools, collective: str, root: int, cores: int, expected: float) -> None:
    """By single copies the root has half as much to do, and its peers have something."""
    times_s = [(4.0, 2.0) if rank == root else (0.0, 4 / 3) for rank in range(4)]
    found = pools("shm", 4).run(moved, collective, root, times_s, cores)
    assert len(set(found)) == 1 and f"single copies took {expected:.2f} " in found[0]


@READS
@pytest.mark.parametrize("collective", ["scatter", "gather"])
def test_a_peer_without_times_leaves_the_prediction(pools: Pools, collective: str) -> None:
    found = pools("shm", 2).run(moved, collective, 0, [(4.0, 1.0), (2.0, 2.0)], 2, 1)
    assert found[0] == found[1]
