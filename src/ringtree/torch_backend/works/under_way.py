"""The works of a group that were begun and are not known to have ended: kept, for the program may drop them."""

from __future__ import annotations

import atexit
import os
import threading
import time
from typing import TYPE_CHECKING
from weakref import WeakSet

from ringtree.torch_backend.works.callbacks import PROGRAM, Callbacks, callback_context
from ringtree.torch_backend.works.completion import here

if TYPE_CHECKING:
    from ringtree.torch_backend.works.work import Pending

GRACE_S = 5.0
"""Seconds that a process which ends without destroying its groups still takes part in calls that it began."""

_all: WeakSet[UnderWay] = WeakSet()


class UnderWay:
    """Keeps works, and with them their tensors, until they have ended. Threads may come at any time."""

    def __init__(self, callbacks: Callbacks) -> None:
        self._callbacks = callbacks
        self._lock = threading.Lock()
        self._works: dict[Pending, None] = {}  # the oldest first
        self._hanging: set[Pending] = set()  # their futures are referenced, and have callbacks that have not ended
        _all.add(self)

    def add(self, work: Pending) -> None:
        """Keeps `work`; finishes up to two older works that have ended without a wait."""
        for old in self._oldest(2) if self._works else ():
            if not old.is_completed():
                with self._lock:
                    if old in self._works:  # to the end: the next time, others are looked at
                        del self._works[old]
                        self._works[old] = None
        with self._lock:
            self._works[work] = None

    def discard(self, work: Pending) -> None:
        """Removes a work that has ended."""
        with self._lock:
            self._works.pop(work, None)

    def interrupted(self) -> None:
        """Marks the works as interrupted: leaving the group then does not wait for them."""
        with self._lock:
            for work in self._works:
                work.owed = False

    def hang(self, work: Pending) -> None:
        """Keeps a work whose future may have callbacks."""
        with self._lock:
            self._hanging.add(work)

    def completed(self, work: Pending) -> None:
        """Removes a work whose callbacks have ended."""
        with self._lock:
            self._hanging.discard(work)

    def drain(self, timeout_s: float) -> None:
        """Waits for works that other ranks may wait for, and for callbacks; for `timeout_s` seconds at most. A callback
        does not wait for callbacks."""
        until = time.monotonic() + timeout_s
        while (work := self._owed()) and work.ended(max(until - time.monotonic(), 0.0)):
            pass
        while self._called_back() and time.monotonic() < until and not here() and callback_context.get() is PROGRAM:
            time.sleep(0.001)

    def _owed(self) -> Pending | None:
        with self._lock:
            return next((work for work in self._works if work.owed), None)

    def _called_back(self) -> bool:
        """Whether callbacks run now, or will."""
        if self._callbacks.busy():
            return True
        with self._lock:
            return any(work.owed or work not in self._works for work in self._hanging)

    def _oldest(self, most: int) -> list[Pending]:
        with self._lock:
            return [work for work, _ in zip(self._works, range(most), strict=False)]


os.register_at_fork(after_in_child=_all.clear)  # the parent's calls, which no thread of the child can end


def _at_exit() -> None:
    until = time.monotonic() + GRACE_S
    for each in list(_all):
        each.drain(max(until - time.monotonic(), 0.0))


atexit.register(_at_exit)  # after completion's has been, so that it runs before it: that closes the groups
