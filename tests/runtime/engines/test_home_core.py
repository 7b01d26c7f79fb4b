"""Ranks that share cores keep to one, as many to each, and may run on all as before (tests/csrc/home_core.cc), and none
gives its core to one that waits as it does (tests/csrc/neighbours.cc)."""

from __future__ import annotations

import os
import resource
from collections.abc import Sequence

import numpy as np
import pytest

import ringtree
from ringtree.runtime.communicator.communicator import Communicator
from ringtree.runtime.engines import shm

CORES = sorted(os.sched_getaffinity(0))
RANKS = 2 * len(CORES)
WAITS = 3000


@pytest.mark.parametrize(
    "machines, masks, homes",
    [
        ([0] * 4, ["3"] * 4, [0, 0, 1, 1]),
        ([0] * 5, ["a4"] * 5, [2, 2, 5, 5, 7]),
        ([0, 1, 0, 1], ["1", "6", "1", "6"], [0, -1, 0, -1]),  # of hosts with other cores
        ([1, 0, 1, 0], ["1", "6", "1", "6"], [-1, 1, -1, 2]),
        ([0] * 3, ["1", "2", "3"], []),  # pinned apart
        ([0] * 2, ["1"] * 2, [0, 0]),
        ([0, 1, 1], ["3", "1", "2"], [0, -1, -1]),
        ([1, 0, 0], ["3", "1", "2"], []),
    ],
)
def test_as_many_ranks_keep_to_each_core(machines: Sequence[int], masks: Sequence[str], homes: Sequence[int]) -> None:
    assert shm._home_cores(machines.index(0), machines, masks) == homes


def spread(comm: Communicator) -> list[int]:
    """The cores that a rank may run on after it was moved."""
    os.sched_setaffinity(0, CORES[:1])
    comm.barrier()
    os.sched_setaffinity(0, CORES)
    for _ in range(WAITS):
        comm.barrier()
    return sorted(os.sched_getaffinity(0))


def test_ranks_may_run_on_all_cores_as_before() -> None:
    assert ringtree.spawn(spread, RANKS) == [CORES] * RANKS


def pinned(comm: Communicator) -> int:
    os.sched_setaffinity(0, CORES[:1])
    for _ in range(WAITS):
        comm.barrier()
    return len(os.sched_getaffinity(0))


def test_a_rank_that_is_pinned_later_stays_there() -> None:
    assert ringtree.spawn(pinned, RANKS) == [1] * RANKS


def switches(comm: Communicator) -> float:
    """The least context switches of a rank in a barrier, of many stretches of barriers."""

    def counted() -> int:
        used = resource.getrusage(resource.RUSAGE_SELF)
        return used.ru_nvcsw + used.ru_nivcsw

    least = np.inf
    for _ in range(30):
        before = counted()
        for _ in range(WAITS // 10):
            comm.barrier()
        mine = np.array([(counted() - before) / (WAITS // 10)])
        least = min(least, float(comm.all_reduce(mine)[0]) / comm.size)
    return least


@pytest.mark.slow  # a busy machine switches between more than these ranks
@pytest.mark.skipif(len(CORES) < 2, reason="one core")
def test_a_core_does_not_go_round_among_ranks_that_wait_for_another() -> None:
    """Of two ranks on a core, the last to run in a barrier is the first in the next: half a switch a rank, at least."""
    assert max(ringtree.spawn(switches, RANKS)) < 0.65
