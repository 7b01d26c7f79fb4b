"""What the survivors of a deadly fault do: they shrink the world, and make checked calls in what comes of it."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from ringtree.runtime.communicator.communicator import Communicator
from tests.runtime.chaos.case import Case
from tests.runtime.soak.player import Player
from tests.runtime.soak.script import steps
from tests.runtime.soak.values import Tables

STILL_S = 1.0
"""Seconds after which one that stands still is left out."""
CHAPTER, STEPS = 1000, 12


def go_on(world: Communicator, case: Case, tables: Tables) -> tuple[Communicator, float]:
    """The survivors' group, and when its first call was done, by time.time(). Raises for what is not as it must be."""
    known = case.culprits if case.fault == "host stopped" else []
    after = world.shrink(known, timeout_s=STILL_S if case.stands_still else None)
    total = after.all_reduce(np.ones(1))
    at_s = time.time()
    expected = tuple(rank for rank in range(case.ranks) if rank not in case.culprits)
    _check(after.former_ranks, expected, "the survivors")
    _check(total[0], len(expected), "the first sum")
    player = Player(after, tables)
    mix = case.mixes[0]
    for number, step in enumerate(list(steps(case.seed, CHAPTER, mix))[:STEPS]):
        player.step(number, step)
    player.end_chapter(CHAPTER)
    after.barrier()
    return after, at_s


def _check(found: Any, expected: Any, what: str) -> None:
    if found != expected:
        raise AssertionError(f"{what} are {found}; expected {expected}")
