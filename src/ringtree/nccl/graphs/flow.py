"""The capacity left on each edge while channels take their share."""

from __future__ import annotations

from ringtree.nccl.graphs.system import UNIT, GraphPath, System

Charges = tuple[tuple[int, int], ...]
"""(edge, units) that a step of a channel takes, in the order in which they are taken."""


class Flow:
    """The edges of a system, all free at first."""

    def __init__(self, system: System) -> None:
        self.system = system
        self.left = [edge.capacity_MBps * UNIT for edge in system.edges]

    def charges(self, flows: tuple[tuple[GraphPath, int], ...]) -> Charges:
        """Returns what the MB/s of all the paths take."""
        return tuple((edge, units * MBps) for path, MBps in flows for edge, units in self.system.charges(path))

    def take(self, charges: Charges) -> bool:
        """Takes the charges and returns True; takes nothing and returns False where an edge lacks them."""
        left = self.left
        for n, (edge, units) in enumerate(charges):
            if left[edge] < units:
                self.give(charges[:n])
                return False
            left[edge] -= units
        return True

    def give(self, charges: Charges) -> None:
        """Returns the charges to the edges."""
        for edge, units in charges:
            self.left[edge] += units
