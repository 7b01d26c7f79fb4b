"""Schedules that callers gave, by identity: what is known of each. The last used are kept, as plans are."""

from __future__ import annotations

from typing import Generic, TypeVar

from ringtree.ir.schedule import Schedule
from ringtree.runtime.communicator.plans import KEPT

Fact = TypeVar("Fact")


class Same:
    """A schedule as a key. It is equal to itself only, and while the key is kept no other can have its identity."""

    __slots__ = ("schedule",)

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule

    def __hash__(self) -> int:
        return id(self.schedule)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.schedule is other.schedule


class Given(Generic[Fact]):
    """A fact for each of at most KEPT schedules; the one that was not asked for the longest makes room."""

    def __init__(self) -> None:
        self._facts: dict[Same, Fact] = {}  # the last used last

    def find(self, schedule: Schedule) -> Fact | None:
        key = Same(schedule)
        found = self._facts.pop(key, None)
        if found is not None:
            self._facts[key] = found
        return found

    def keep(self, schedule: Schedule, fact: Fact) -> Fact:
        while len(self._facts) >= KEPT:
            del self._facts[next(iter(self._facts))]
        self._facts[Same(schedule)] = fact
        return fact

    def __len__(self) -> int:
        return len(self._facts)
