"""Restarts of a job's ranks: how many are left, and when each is due. A rank that dies at once, again and again, waits
longer each time."""

from __future__ import annotations

import time

STEADY_S = 10.0
"""Seconds after which a rank counts as one that runs: its next restart is at once."""
PAUSE_S, LONGEST_PAUSE_S = 0.25, 30.0
"""Seconds before the restart of a rank that died at once twice, which double each time, and their bound."""


class Restarts:
    """At most `most` in all."""

    def __init__(self, most: int) -> None:
        self.made = 0
        self._left = most
        self._begun_s: dict[int, float] = {}
        self._deaths: dict[int, int] = {}
        """Each rank's deaths in a row that came at once."""
        self._due_s: dict[int, float] = {}

    def begun(self, rank: int) -> None:
        """Notes a rank's start."""
        self._begun_s[rank] = time.monotonic()

    def plan(self, rank: int) -> bool:
        """Plans the restart of a rank that has died; False where none is left."""
        if not self._left:
            return False
        self._left -= 1
        now_s = time.monotonic()
        steady = now_s - self._begun_s[rank] > STEADY_S
        deaths = self._deaths[rank] = 0 if steady else self._deaths.get(rank, 0) + 1
        pause_s = min(PAUSE_S * 2.0 ** min(deaths - 2, 60), LONGEST_PAUSE_S) if deaths > 1 else 0.0
        self._due_s[rank] = now_s + pause_s
        return True

    def due(self) -> list[int]:
        """The ranks whose restart is due, which are planned no longer."""
        now_s = time.monotonic()
        ranks = [rank for rank, due_s in self._due_s.items() if due_s <= now_s]
        for rank in ranks:
            del self._due_s[rank]
        return ranks

    def patience_s(self, other_s: float | None) -> float | None:
        """Seconds until the next is due, at most `other_s`."""
        waits = [max(due_s - time.monotonic(), 0.0) for due_s in self._due_s.values()]
        return min([*waits, *([] if other_s is None else [other_s])], default=None)

    def cancel(self) -> list[int]:
        """Plans none any longer; returns the ranks whose restart was planned."""
        ranks, self._left = list(self._due_s), 0
        self._due_s.clear()
        return ranks
