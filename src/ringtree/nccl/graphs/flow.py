"""The capacity left on each edge while channels take their share."""

from __future__ import annotations

from ringtree.machines.machine import DeviceKind, LinkKind, PathKind
from ringtree.nccl.graphs.system import GraphPath, System

UNIT = 40
"""Bandwidth is counted in fortieths of a MB/s: a fifth more and an eighth are then whole numbers."""
INTEL_UNIT = UNIT * 6 // 5
"""An Intel CPU splits the data between GPUs that passes through it into small packets."""
VOLTA_REVERSE_UNIT = UNIT // 8
"""Before sm80, data that a GPU receives from another device than a GPU costs an eighth on the outward link."""


class Flow:
    """The edges of a system, all free at first."""

    def __init__(self, system: System) -> None:
        self.system = system
        self.left = [edge.capacity_MBps * UNIT for edge in system.edges]
        self._charges: dict[tuple[int, ...], tuple[tuple[int, int], ...]] = {}

    def take(self, flows: tuple[tuple[GraphPath, int], ...]) -> bool:
        """Takes the MB/s of all the paths and returns True; takes nothing and returns False where one lacks them."""
        for n, (path, MBps) in enumerate(flows):
            if not self._take(path, MBps):
                self.give(flows[:n])
                return False
        return True

    def give(self, flows: tuple[tuple[GraphPath, int], ...]) -> None:
        """Returns the MB/s of the paths to the edges."""
        for path, MBps in flows:
            for edge, units in self._charged(path):
                self.left[edge] += units * MBps

    def _take(self, path: GraphPath, MBps: int) -> bool:
        charges = self._charged(path)
        for n, (edge, units) in enumerate(charges):
            if self.left[edge] < units * MBps:
                for earlier, taken in charges[:n]:
                    self.left[earlier] += taken * MBps
                return False
            self.left[edge] -= units * MBps
        return True

    def _charged(self, path: GraphPath) -> tuple[tuple[int, int], ...]:
        """(edge, units) a path costs each MB/s."""
        if path.edges not in self._charges:
            self._charges[path.edges] = tuple(self._charge(path))
        return self._charges[path.edges]

    def _charge(self, path: GraphPath) -> list[tuple[int, int]]:
        devices, edges = self.system.devices, [self.system.edges[e] for e in path.edges]
        if not edges:
            return []
        from_gpu = devices[edges[0].source].kind is DeviceKind.GPU
        by_cpu = any(devices[e.target].kind is DeviceKind.CPU for e in edges)
        more = from_gpu and by_cpu and path.kind is PathKind.PHB and self.system.cpu == "intel"
        charges = []
        for number, edge in zip(path.edges, edges, strict=True):
            target = devices[edge.target]
            charges.append((number, INTEL_UNIT if edge.kind is LinkKind.PCIE and more else UNIT))
            if edge.reverse < 0:
                continue
            if target.kind is DeviceKind.GPU and 0 < target.sm < 80 and not from_gpu:
                charges.append((edge.reverse, VOLTA_REVERSE_UNIT))
            if target.kind is DeviceKind.CPU and edge.kind is LinkKind.NVLINK and self.system.cpu == "ibm":
                charges.append((edge.reverse, UNIT))
        return charges
