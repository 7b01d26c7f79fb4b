"""The works of a group that were begun and have not ended, as far as is known: kept, for nobody else may."""

from __future__ import annotations

import atexit
import threading
import time
from typing import TYPE_CHECKING
from weakref import WeakSet

if TYPE_CHECKING:
    from ringtree.torch_backend.work import Pending

GRACE_S = 2.0
"""How long a process that ends without destroying its groups still takes part in what it began."""

_all: WeakSet[UnderWay] = WeakSet()


class UnderWay:
    """Keeps works, and with them their tensors, until they have ended. Threads may come at any time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._works: dict[Pending, None] = {}  # the oldest first
        _all.add(self)

    def add(self, work: Pending) -> None:
        """Keeps it; and finishes those that have ended and that nobody waits for, two for each that is added."""
        for old in self._oldest(2):
            if not old.is_completed():
                with self._lock:
                    if old in self._works:  # to the end: the next time, others are looked at
                        del self._works[old]
                        self._works[old] = None
        with self._lock:
            self._works[work] = None

    def discard(self, work: Pending) -> None:
        """It has ended."""
        with self._lock:
            self._works.pop(work, None)

    def drain(self, timeout_s: float) -> bool:
        """Waits for all of them; false when so much time passed first. How they end is not said here."""
        until = time.monotonic() + timeout_s
        while oldest := self._oldest(1):
            if not oldest[0].ended(max(until - time.monotonic(), 0.0)):
                return False
        return True

    def _oldest(self, most: int) -> list[Pending]:
        with self._lock:
            return [work for work, _ in zip(self._works, range(most), strict=False)]


def _at_exit() -> None:
    until = time.monotonic() + GRACE_S
    for each in list(_all):
        each.drain(max(until - time.monotonic(), 0.0))


atexit.register(_at_exit)
