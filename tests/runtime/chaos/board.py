"""Memory that a case's ranks share with the process that watches them: what happened when, also to a rank that died."""

from __future__ import annotations

import mmap
import time

import numpy as np

TEXT_BYTES = 1024
FAULT, ASKED, AT = 0, 1, 2


class Board:
    """Made before the ranks are forked."""

    def __init__(self, ranks: int) -> None:
        self._page = mmap.mmap(-1, TEXT_BYTES + 8 * (AT + ranks))
        self._numbers = np.frombuffer(self._page, np.int64, AT + ranks, TEXT_BYTES)

    def fault(self, what: str = "") -> None:
        """Notes the fault, and that it happens now. The words that asked for one stay."""
        if what:
            self._write(what)
        self._numbers[FAULT] = time.time_ns()

    def ask(self, what: str) -> None:
        """Asks who watches the ranks for a fault, and returns when that has happened."""
        self._write(what)
        self._numbers[ASKED] = 1
        while not self.happened_s:
            time.sleep(0.001)

    @property
    def asked(self) -> bool:
        """Whether a fault is asked for that has not happened."""
        return bool(self._numbers[ASKED]) and not self.happened_s

    def _write(self, what: str) -> None:
        data = what.encode()[:TEXT_BYTES]
        self._page[: len(data)] = data

    @property
    def happened_s(self) -> float:
        """When the fault happened, by time.time(); 0 while it has not. (Hosts have monotonic clocks of their own.)"""
        return float(self._numbers[FAULT]) * 1e-9

    @property
    def what(self) -> str:
        """The fault in words."""
        return self._page[:TEXT_BYTES].rstrip(b"\0").decode(errors="replace")

    def reached(self, rank: int, step: int) -> None:
        """Notes a rank's last step, for those that never report."""
        self._numbers[AT + rank] = step

    def at(self, rank: int) -> int:
        return int(self._numbers[AT + rank])
