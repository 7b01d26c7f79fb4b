"""Waiting in tests: by events, not by the clock. pytest's own limit ends a test that waits in vain."""

from __future__ import annotations

import mmap
import signal
import threading
import time
from collections.abc import Callable
from types import TracebackType

NAP_S = 0.01


def until(holds: Callable[[], object]) -> None:
    """Returns when `holds()` is true."""
    while not holds():
        time.sleep(NAP_S)


class Event:
    """threading.Event for ranks that are forked, too: made before they are."""

    def __init__(self) -> None:
        self._page = mmap.mmap(-1, 1)

    def set(self) -> None:
        self._page[0] = 1

    def is_set(self) -> bool:
        return self._page[0] == 1

    def wait(self) -> None:
        until(self.is_set)


class Naps:
    """Counts naps of 10 ms, in a thread, from when `since()` is true to the end of the block.

    A busy machine, on which all takes longer, has fewer of them in a second.
    """

    A_SECOND = 100

    def __init__(self, since: Callable[[], object]) -> None:
        self.count = 0
        self._since, self._over = since, threading.Event()
        self._thread = threading.Thread(target=self._nap, daemon=True)

    def _nap(self) -> None:
        while not self._over.wait(NAP_S):
            self.count += bool(self._since())

    def __enter__(self) -> Naps:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()


def interruptible() -> None:
    """For a child before its exec: Ctrl-C reaches it, also where the tests run in the background, which ignores it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
