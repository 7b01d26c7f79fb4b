"""Clusters: a machine so many times, on a network."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ringtree.topology.fabrics import Fabric
from ringtree.topology.machine import Machine


class Network(str, Enum):
    """RAILS: the k-th NIC of every machine on a leaf of its own, so that rails meet at the spine only. FAT_TREE:
    machines under leaves. TORUS: machines in a grid, links to neighbours."""

    RAILS = "rails"
    FAT_TREE = "fat_tree"
    TORUS = "torus"


@dataclass(frozen=True)
class Cluster:
    """`nodes` times a machine. `oversubscription`: what comes up to the spine over what it carries, at least 1.
    `sharp`: the switches reduce."""

    machine: Machine
    nodes: int = 1
    fabric: Fabric | None = None
    network: Network = Network.RAILS
    oversubscription: float = 1.0
    sharp: bool = False

    def __post_init__(self) -> None:
        if self.nodes < 1:
            raise ValueError(f"{self.name}: {self.nodes} nodes; expected at least 1")
        if self.nodes > 1 and (self.fabric is None or not self.machine.nics):
            missing = "no NIC: expected some, as --nics 8x400Gb" if self.fabric else "no fabric"
            raise ValueError(f"{self.name}: {self.nodes} nodes and {missing}")
        if not self.oversubscription >= 1:
            raise ValueError(f"{self.name}: oversubscription {self.oversubscription}; expected at least 1")

    @property
    def name(self) -> str:
        """`dgx-h100 x4`, or the machine's own."""
        return self.machine.name if self.nodes == 1 else f"{self.machine.name} x{self.nodes}"

    @property
    def ranks(self) -> int:
        """GPUs in all, machine by machine."""
        return self.nodes * len(self.machine.gpus)
