"""Many cases, some at a time, each in a process that takes in whatever its ranks leave behind."""

from __future__ import annotations

import ctypes
import gc
import multiprocessing
import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module

from ringtree.runtime.communicator.communicator import Communicator
from ringtree.runtime.launch.spawn import spawn
from tests.runtime.chaos.case import MOST_RANKS, Case
from tests.runtime.chaos.trial import tried
from tests.runtime.chaos.verdict import Verdict
from tests.runtime.hosts.lab import Lab
from tests.runtime.soak.load import die_with
from tests.runtime.soak.player import Player
from tests.runtime.soak.script import MIXES, steps
from tests.runtime.soak.values import Tables

TIMEOUT_S = 3.0
"""Of the groups' waits: a rank that stands still is named after it."""
TIMEOUT_OVER_HOSTS_S = 8.0
"""The same over hosts, where one that is silent is named after 3 s."""
_PR_SET_CHILD_SUBREAPER = 36

_tables: Tables | None = None
_lab: Lab | None = None


def campaign(cases: Sequence[Case], jobs: int, timeout_s: float = TIMEOUT_S) -> Iterator[Verdict]:
    """The verdicts on the cases, in their order; `jobs` of them run at a time."""
    global _tables
    _tables = Tables(MOST_RANKS)
    for name in spawn(_loaded, 2, _tables)[0]:
        import_module(name)
    if any(case.torch for case in cases):
        for name in ("torch.distributed", "ringtree.torch_backend"):
            import_module(name)
    gc.collect()
    gc.freeze()  # ranks collect what they made themselves
    hosts = max((len(case.layout) for case in cases), default=0)
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(jobs, context, initializer=_begin, initargs=(os.getpid(), hosts)) as workers:
        yield from workers.map(_try, cases, [timeout_s] * len(cases))


def _begin(parent: int, hosts: int) -> None:
    global _lab
    die_with(parent)
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    _lab = Lab(hosts) if hosts else None  # of this worker alone: its links are cut


def _try(case: Case, timeout_s: float) -> Verdict:
    assert _tables is not None
    return tried(case, _tables, timeout_s, _lab)


def _loaded(comm: Communicator, tables: Tables) -> list[str]:
    """The modules that a rank loads for its first calls: once, where all ranks are forked later."""
    before, player = {*sys.modules}, Player(comm, tables)
    for mix in MIXES:
        for number, step in enumerate(steps(0, 0, mix)):
            player.step(number, step)
        player.end_chapter(0)
    return sorted({*sys.modules} - before)
