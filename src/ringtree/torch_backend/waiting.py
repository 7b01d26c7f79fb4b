"""Who waits for whom while groups are made: ranks that make theirs in different orders may wait in a circle.

A member that waits for long writes down for whom, where all ranks of the job can read it; who gives up reads what the
others were in, that did not come.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Sequence
from typing import Any

from ringtree.errors import TimedOut
from ringtree.runtime.communicator.communicator import Communicator

SAYS_S = 1.0
"""How long a member waits before it says so."""

READ_S = 2.0
"""How long what it said is believed after it gave up."""

MOST_STEPS = 8
"""Of a long circle so many are named."""


class Waiting:
    """One rank's wait for the other members of a group that is made from `parent`. `with` it, a TimedOut says what the
    others are in. `ranks`: the members; `store`: any of the job's."""

    def __init__(self, store: Any, parent: Communicator, ranks: Sequence[int], timeout_s: float) -> None:
        self._store = getattr(store, "_underlying_non_prefix_store", store)
        self._rank, self._place, self._ranks = parent.rank, parent.key, list(ranks)
        now_s = time.time()  # the same for all, who are on one machine
        self._says_s, self._until_s = now_s + min(SAYS_S, timeout_s / 2), now_s + timeout_s
        self._missing: list[int] = []

    def check_liveness(self, absent: list[int]) -> None:
        """Says for whom this rank waits: who has not come, or else the first, who knows."""
        if time.time() < self._says_s:
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
        """What those are in for whom this rank waits, and for whom they wait there."""
        seen, steps, rank = list[int](), list[str](), self._rank
        while rank not in seen and (said := self._said_by(rank)):
            ranks, missing, until_s = json.loads(said)
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

    def _said_by(self, rank: int) -> bytes:
        key = self._key(rank)
        return bytes(self._store.get(key)) if self._store.check([key]) else b""

    def _key(self, rank: int) -> str:
        return f"ringtree/{self._place}/waits/{rank}"
