"""What is kept of calls: their plans, and facts of the schedules that callers gave. The last used are kept: ever-new
lengths do not pile up."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from ringtree.ir.schedule import Schedule
from ringtree.runtime.communicator.calls.binding import Bound
from ringtree.runtime.engines.protocols import PreparedPrograms

KEPT = 1024

Key = tuple[Any, ...]
"""What a call was asked for, with all that decides its plan."""
Look = tuple[int, str, int, str, int, int, int]
"""What the engine's short way knows a call by: as `remember` takes it, less the plan."""


class Plans:
    """At most KEPT of them; the one that was not asked for the longest makes room. What the short way serves is not
    asked for here: a plan that is forgotten all the same is made anew at the next call."""

    def __init__(self, seat: PreparedPrograms) -> None:
        self.seat = seat
        self._bound: dict[Key, Bound] = {}  # the last used last
        self._taught: dict[Look, int] = {}
        self._looks: dict[int, set[Look]] = {}  # by plan: what was ever taught of it

    def find(self, key: Key) -> Bound | None:
        found = self._bound.pop(key, None)
        if found is not None:
            self._bound[key] = found
        return found

    def keep(self, key: Key, bound: Bound) -> None:
        while len(self._bound) >= KEPT:
            oldest = self._bound.pop(next(iter(self._bound))).plan
            for look in self._looks.pop(oldest, ()):
                if self._taught.get(look) == oldest:
                    del self._taught[look]
            self.seat.forget(oldest)
        self._bound[key] = bound

    def teach(self, look: Look, bound: Bound) -> None:
        """Lets the short way serve calls that look like this one."""
        if self._taught.get(look) != bound.plan:
            self._taught[look] = bound.plan
            self._looks.setdefault(bound.plan, set()).add(look)
            offset = bound.input_start - bound.output_start if bound.aliasable else None
            self.seat.remember(*look, plan=bound.plan, offset=offset)

    def programs(self) -> dict[int, str]:
        """By the digests of their calls, the names of what they run."""
        return {bound.part.digest: bound.part.program.name for bound in self._bound.values()}

    def clear(self) -> None:
        self._bound.clear()
        self._taught.clear()
        self._looks.clear()

    def __len__(self) -> int:
        return len(self._bound)


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
