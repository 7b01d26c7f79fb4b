"""Detects circular waits while groups are made: ranks that make groups in different orders may deadlock.

A member that waits for more than REPORTS_S writes the rank it waits for into the job's store. A member that gives up
reads there which groups the missing ranks were making.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Sequence
from typing import Any

from ringtree.errors import TimedOut
from ringtree.runtime.communicator.communicator import Communicator

REPORTS_S = 1.0
"""Seconds that a member waits before it writes its wait into the store."""

READ_S = 2.0
"""Seconds after a member's deadline for which its entry in the store counts as valid."""

MOST_STEPS = 8
"""At most this many ranks of a circle are named."""


class Waiting:
    """One rank's wait for the other members of a group that is made from `parent`. As a context manager it adds to a
    TimedOut the groups that the missing ranks are making. `ranks`: the members; `store`: any store of the job."""

    def __init__(self, store: Any, parent: Communicator, ranks: Sequence[int], timeout_s: float) -> None:
        self._store = getattr(store, "_underlying_non_prefix_store", store)
        self._rank, self._world_key, self._ranks = parent.rank, parent.key, list(ranks)
        now_s = time.time()  # the ranks' clocks agree within READ_S, or a hint in an error is missing or old
        self._reports_s, self._until_s = now_s + min(REPORTS_S, timeout_s / 2), now_s + timeout_s
        self._missing: list[int] = []

    def check_liveness(self, absent: list[int]) -> None:
        """Writes into the store for which rank this one waits: the first absent one, or else the group's first rank,
        which knows the absent ones."""
        if time.time() < self._reports_s:
            return
        missing = [self._ranks[m] for m in absent or [0]]
        if missing not in (self._missing, [self._rank]):
            self._missing = missing
            with contextlib.suppress(RuntimeError):
                self._store.set(self._key(self._rank), json.dumps((self._ranks, missing[0], self._until_s)))

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        with contextlib.suppress(RuntimeError):  # of the store, which nothing else depends on
            if isinstance(error, TimedOut):
                error.args = (str(error) + self._why(),)
            elif self._missing:
                self._store.set(self._key(self._rank), "")

    def _why(self) -> str:
        """The groups that the awaited ranks are making, and the ranks that they wait for there, as text."""
        seen, steps, rank = list[int](), list[str](), self._rank
        while rank not in seen and (entry := self._entry_of(rank)):
            ranks, missing, until_s = json.loads(entry)
            if time.time() > until_s + READ_S:
                break
            if rank != self._rank:
                steps.append(f"rank {rank} is in new_group({ranks}), where it waits for rank {missing}")
            seen.append(rank)
            rank = missing
        if not steps:
            return ""
        circle = " - a circle: make groups in one order on all ranks" if rank in seen else ""
        return "; " + ", ".join([*steps[:MOST_STEPS], *["..."] * (len(steps) > MOST_STEPS)]) + circle

    def _entry_of(self, rank: int) -> bytes:
        key = self._key(rank)
        return bytes(self._store.get(key)) if self._store.check([key]) else b""

    def _key(self, rank: int) -> str:
        return f"ringtree/{self._world_key}/waits/{rank}"
