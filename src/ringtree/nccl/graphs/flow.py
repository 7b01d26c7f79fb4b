"""The capacity left on each edge while channels take their share."""

from __future__ import annotations

from ringtree.nccl.graphs.system import UNIT, GraphPath, System

Charges = tuple[tuple[int, int], ...]
"""(edge, units) that a step of a channel takes, each edge once."""


class Flow:
    """The edges of a system, all free at first."""

    def __init__(self, system: System) -> None:
        self.system = system
        self.left = [edge.capacity_MBps * UNIT for edge in system.edges]

    def charges(self, flows: tuple[tuple[GraphPath, int], ...]) -> Charges:
        """Returns what the MB/s of all the paths take."""
        taken: dict[int, int] = {}
        for path, MBps in flows:
            for edge, units in self.system.charges(path):
                taken[edge] = taken.get(edge, 0) + units * MBps
        return tuple(taken.items())

    def take(self, charges: Charges) -> bool:
        """Takes the charges and returns True; takes nothing and returns False where an edge lacks them."""
        left = self.left
        for edge, units in charges:
            if left[edge] < units:
                return False
        for edge, units in charges:
            left[edge] -= units
        return True

    def give(self, charges: Charges) -> None:
        """Returns the charges to the edges."""
        left = self.left
        for edge, units in charges:
            left[edge] += units
