"""What is left of each edge while channels take their share of it."""

from __future__ import annotations

from ringtree.machines.machine import DeviceKind, LinkKind, PathKind
from ringtree.nccl.graphs.system import GraphPath, System

UNIT = 40
"""Bandwidth is counted in fortieths of a MB/s: a fifth more and an eighth are whole so."""
INTEL_UNIT = UNIT * 6 // 5
"""An Intel CPU turns what GPUs send one another through it to small packets."""
VOLTA_REVERSE_UNIT = UNIT // 8
"""Before sm80, what a GPU takes from elsewhere than a GPU costs an eighth on its way out."""


class Flow:
    """The edges of a system, all free at first."""

    def __init__(self, system: System) -> None:
        self.system = system
        self.left = [edge.capacity_MBps * UNIT for edge in system.edges]
        self._charges: dict[tuple[int, ...], tuple[tuple[int, int], ...]] = {}

    def take(self, flows: tuple[tuple[GraphPath, int], ...]) -> bool:
        """Whether all the paths have their MB/s left, which are taken; else nothing is."""
        for n, (way, MBps) in enumerate(flows):
            if not self._take(way, MBps):
                self.give(flows[:n])
                return False
        return True

    def give(self, flows: tuple[tuple[GraphPath, int], ...]) -> None:
        """Back to the edges."""
        for way, MBps in flows:
            for edge, units in self._charged(way):
                self.left[edge] += units * MBps

    def _take(self, way: GraphPath, MBps: int) -> bool:
        charges = self._charged(way)
        for n, (edge, units) in enumerate(charges):
            if self.left[edge] < units * MBps:
                for earlier, taken in charges[:n]:
                    self.left[earlier] += taken * MBps
                return False
            self.left[edge] -= units * MBps
        return True

    def _charged(self, way: GraphPath) -> tuple[tuple[int, int], ...]:
        """(edge, units) a path costs each MB/s."""
        if way.edges not in self._charges:
            self._charges[way.edges] = tuple(self._charge(way))
        return self._charges[way.edges]

    def _charge(self, way: GraphPath) -> list[tuple[int, int]]:
        devices, edges = self.system.devices, [self.system.edges[e] for e in way.edges]
        if not edges:
            return []
        from_gpu = devices[edges[0].source].kind is DeviceKind.GPU
        by_cpu = any(devices[e.target].kind is DeviceKind.CPU for e in edges)
        more = from_gpu and by_cpu and way.kind is PathKind.PHB and self.system.cpu == "intel"
        charges = []
        for number, edge in zip(way.edges, edges, strict=True):
            target = devices[edge.target]
            charges.append((number, INTEL_UNIT if edge.kind is LinkKind.PCIE and more else UNIT))
            if edge.reverse < 0:
                continue
            if target.kind is DeviceKind.GPU and 0 < target.sm < 80 and not from_gpu:
                charges.append((edge.reverse, VOLTA_REVERSE_UNIT))
            if target.kind is DeviceKind.CPU and edge.kind is LinkKind.NVLINK and self.system.cpu == "ibm":
                charges.append((edge.reverse, UNIT))
        return charges
