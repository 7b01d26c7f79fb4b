"""What the survivors of a deadly fault do: they shrink the world, and make checked calls in what comes of it.

In some cases one of them dies meanwhile, at any moment; then they do it again.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Any

import numpy as np

from ringtree.errors import Mismatch, PeerDied, Poisoned, TimedOut
from ringtree.runtime.communicator.communicator import Communicator
from tests.runtime.chaos.case import Case
from tests.runtime.soak.player import Player
from tests.runtime.soak.script import steps
from tests.runtime.soak.values import Tables

STILL_S = 2.0
"""Seconds after which one that stands still is left out: on a busy machine ranks hear of a failure a second apart.
Where a rank has several threads, one may begin a call just before the others', and hears a timeout later."""
CHAPTER, STEPS = 1000, 12
FAILURES = (Mismatch, PeerDied, Poisoned, TimedOut)


class Course:
    """The steps of one survivor, with their times: a failure tells in which of them the time went."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()
        self._steps: list[str] = []

    def comes_to(self, step: str) -> None:
        """The survivor begins a step."""
        self._steps.append(f"{step} at {time.monotonic() - self._began_s:.3f} s")

    def __str__(self) -> str:
        return f"{', '.join(self._steps)}; failed at {time.monotonic() - self._began_s:.3f} s"


def awaited_s(case: Case, timeout_s: float) -> float:
    """For how many seconds survivors wait for a rank that does not come. `timeout_s`: of the groups."""
    if not case.stands_still:
        return timeout_s
    return STILL_S if case.threads == 1 else STILL_S + timeout_s


def go_on(world: Communicator, case: Case, tables: Tables) -> tuple[list[Communicator], float]:
    """The groups that the survivors had, and when the first call in the first was done, by time.time(). Raises for what
    is not as it must be, with the survivor's course."""
    course = Course()
    try:
        return _go_on(world, case, tables, course)
    except Exception as error:
        raise AssertionError(f"{type(error).__name__}: {error}; {course}") from error


def _go_on(world: Communicator, case: Case, tables: Tables, course: Course) -> tuple[list[Communicator], float]:
    if case.second is not None and world.rank == case.second[0]:
        threading.Timer(case.second[1], lambda: os.kill(os.getpid(), signal.SIGKILL)).start()
    at_s, comm, groups = 0.0, world, list[Communicator]()
    origins = list(range(case.ranks))
    while True:
        known = [rank for rank in case.left_out if rank in origins]
        course.comes_to("shrinks")
        comm = comm.shrink([origins.index(rank) for rank in known], timeout_s=awaited_s(case, comm.timeout_s))
        groups.append(comm)
        origins = [origins[rank] for rank in comm.former_ranks]
        everybody = origins == case.survivors
        if not everybody and (case.second is None or origins != sorted([*case.survivors, case.second[0]])):
            raise AssertionError(f"the survivors are {origins}; expected {case.survivors} of {case}")
        try:
            course.comes_to("sums")
            total = comm.all_reduce(np.ones(1))
            at_s = at_s or time.time()
            _check(total[0], comm.size, "the first sum")
            course.comes_to("plays")
            _play(comm, case, tables)
            course.comes_to("has played")
            while not everybody:
                comm.barrier()
        except FAILURES as error:
            if everybody:
                raise
            course.comes_to(f"hears {type(error).__name__}")
        else:
            return groups, at_s


def _play(comm: Communicator, case: Case, tables: Tables) -> None:
    player = Player(comm, tables)
    for number, step in enumerate(list(steps(case.seed, CHAPTER, case.mixes[0]))[:STEPS]):
        player.step(number, step)
    player.end_chapter(CHAPTER)
    comm.barrier()


def _check(found: Any, expected: Any, what: str) -> None:
    if found != expected:
        raise AssertionError(f"{what} is {found}; expected {expected}")
