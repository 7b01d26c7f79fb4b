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


def go_on(world: Communicator, case: Case, tables: Tables) -> tuple[list[Communicator], float]:
    """The groups that the survivors had, and when the first call in the first was done, by time.time(). Raises for what
    is not as it must be."""
    if case.second is not None and world.rank == case.second[0]:
        threading.Timer(case.second[1], lambda: os.kill(os.getpid(), signal.SIGKILL)).start()
    at_s, comm, groups = 0.0, world, list[Communicator]()
    origins = list(range(case.ranks))
    while True:
        known = [rank for rank in case.culprits if rank in origins] if case.fault == "host stopped" else []
        still_s = STILL_S if case.threads == 1 else STILL_S + comm.timeout_s
        comm = comm.shrink([origins.index(rank) for rank in known], timeout_s=still_s if case.stands_still else None)
        groups.append(comm)
        origins = [origins[rank] for rank in comm.former_ranks]
        everybody = origins == case.survivors
        if not everybody and (case.second is None or origins != sorted([*case.survivors, case.second[0]])):
            raise AssertionError(f"the survivors are {origins}; expected {case.survivors} of {case}")
        try:
            total = comm.all_reduce(np.ones(1))
            at_s = at_s or time.time()
            _check(total[0], comm.size, "the first sum")
            _play(comm, case, tables)
            while not everybody:
                comm.barrier()
        except FAILURES:
            if everybody:
                raise
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
