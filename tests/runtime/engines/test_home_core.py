"""Ranks that share cores keep to one, as many to each, and may run on all as before (tests/csrc/home_core.cc)."""

from __future__ import annotations

import os
from collections.abc import Sequence

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
        ([0, 1, 0, 1], ["1", "6", "1", "6"], [0, 1, 0, 2]),  # hosts with other cores
        ([0] * 3, ["1", "2", "3"], [-1, -1, -1]),  # pinned apart
        ([0] * 2, ["1"] * 2, [0, 0]),
        ([0, 1, 1], ["3", "1", "2"], [0, -1, -1]),
    ],
)
def test_as_many_ranks_keep_to_each_core(machines: Sequence[int], masks: Sequence[str], homes: Sequence[int]) -> None:
    assert [shm._home_core(rank, machines, masks) for rank in range(len(masks))] == homes


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
