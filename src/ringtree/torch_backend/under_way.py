"""The works of a group that were begun and have not ended, as far as is known: kept, for nobody else may."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ringtree.torch_backend.work import Pending


class UnderWay:
    """Keeps works, and with them their tensors, until they have ended. Threads may come at any time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._works: dict[Pending, None] = {}  # the oldest first

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
