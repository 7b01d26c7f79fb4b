"""Caches of calls: their plans, and facts of the schedules that callers gave. The last used are kept: ever-new lengths
do not pile up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ringtree.ir.schedule import Schedule
from ringtree.runtime.communicator.calls.codes import CODE

if TYPE_CHECKING:
    from ringtree.runtime.communicator.calls.binding import BoundPlan
    from ringtree.runtime.engines.protocols import PreparedPrograms

KEPT = 1024

Key = tuple[Any, ...]
"""A call's request, with all that decides its plan."""
CallSignature = tuple[int, str, int, str, int, int, int]
"""The fast path's key of a call: the arguments of `remember`, less the plan."""


class Plans:
    """At most KEPT of them; the one that was not asked for the longest makes room. What the fast path serves is not
    asked for here: a plan that is forgotten all the same is made anew at the next call."""

    def __init__(self, endpoint: PreparedPrograms) -> None:
        self.endpoint = endpoint
        self._bound: dict[Key, BoundPlan] = {}  # the last used last
        self._taught: dict[CallSignature, int] = {}
        self._signatures: dict[int, set[CallSignature]] = {}  # by plan: what was ever taught of it

    def find(self, key: Key) -> BoundPlan | None:
        """The plan of such a call, or None; a found plan becomes the last used."""
        found = self._bound.pop(key, None)
        if found is not None:
            self._bound[key] = found
        return found

    def keep(self, key: Key, bound: BoundPlan) -> None:
        """Keeps a plan; over KEPT plans, the engine forgets the one not used for the longest."""
        while len(self._bound) >= KEPT:
            oldest = self._bound.pop(next(iter(self._bound))).plan
            for signature in self._signatures.pop(oldest, ()):
                if self._taught.get(signature) == oldest:
                    del self._taught[signature]
            self.endpoint.forget(oldest)
        self._bound[key] = bound

    def teach(self, signature: CallSignature, bound: BoundPlan) -> None:
        """Lets the fast path serve calls that look like this one."""
        if self._taught.get(signature) != bound.plan:
            self._taught[signature] = bound.plan
            self._signatures.setdefault(bound.plan, set()).add(signature)
            offset = bound.input_start - bound.output_start if bound.aliasable else None
            self.endpoint.remember(*signature, plan=bound.plan, offset=offset)
            if signature[0] == CODE["barrier"]:
                self.endpoint.remember_barrier(bound.plan)

    def programs(self) -> dict[int, str]:
        """The names of the programs of calls, by the calls' digests."""
        return {bound.part.digest: bound.part.program.name for bound in self._bound.values()}

    def forget_all(self) -> None:
        """Drops all plans, in the engine too; no call may be under way."""
        for bound in self._bound.values():
            self.endpoint.forget(bound.plan)
        self.clear()

    def clear(self) -> None:
        """Drops all plans without a word to the engine, which is gone."""
        self._bound.clear()
        self._taught.clear()
        self._signatures.clear()

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
        """The fact of a schedule, or None; a found fact becomes the last used."""
        key = Same(schedule)
        found = self._facts.pop(key, None)
        if found is not None:
            self._facts[key] = found
        return found

    def keep(self, schedule: Schedule, fact: Fact) -> Fact:
        """Keeps and returns the fact; over KEPT facts, the one not used for the longest is dropped."""
        while len(self._facts) >= KEPT:
            del self._facts[next(iter(self._facts))]
        self._facts[Same(schedule)] = fact
        return fact

    def __len__(self) -> int:
        return len(self._facts)


class Offsets:
    """The number that is added to CODE where the caller forces an algorithm, by its name or a schedule."""

    def __init__(self) -> None:
        self._names: dict[str, int] = {}
        self._schedules = Given[int]()
        self._last = 0

    def find(self, algorithm: object) -> int | None:
        """The number, or None where no call was taught."""
        if isinstance(algorithm, str):
            return self._names.get(algorithm)
        return self._schedules.find(algorithm) if isinstance(algorithm, Schedule) else None

    def keep(self, algorithm: str | Schedule) -> int:
        """The number, a new one where there is none."""
        found = self.find(algorithm)
        if found is not None:
            return found
        self._last += len(CODE)
        if isinstance(algorithm, Schedule):
            return self._schedules.keep(algorithm, self._last)
        self._names[algorithm] = self._last
        return self._last
