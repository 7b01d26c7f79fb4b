"""The reference engine's agreement of survivors: a table that the threads share."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ringtree.runtime.engines.reference.group import ReferenceGroup


class ReferenceSurvival:
    """The survivors' turns and decisions; see ringtree._native.Group for the contract."""

    group: ReferenceGroup
    rank: int
    ranks: int

    @property
    def failure(self) -> str:
        failed = self.group.failure
        return str(failed[1][0]) if failed else ""

    def arrive(self, turn: int, ready: bool, shunned: list[int]) -> None:
        with self.group.changed:
            self.group.shunned.update(shunned)
            self.group.arrivals[self.rank] = turn, ready

    def arrivals(self) -> list[tuple[int, bool, bool]]:
        with self.group.changed:
            came = [self.group.arrivals.get(rank, (0, False)) for rank in range(self.ranks)]
            return [(*each, rank in self.group.shunned) for rank, each in enumerate(came)]

    def decide(self, turn: int, made: bool, members: list[int]) -> bool:
        with self.group.changed:
            if turn != self.group.decision[0] + 1:
                return False
            self.group.decision = turn, made, members
            return True

    def decision(self) -> tuple[int, bool, list[int]]:
        with self.group.changed:
            return self.group.decision
