"""Clusters: several copies of a machine, on a network."""

from __future__ import annotations

from dataclasses import dataclass

from ringtree.machines.contraction import contract, gpu_slots, shared_switch
from ringtree.machines.machine import Machine
from ringtree.machines.wiring import check_ports, wire
from ringtree.topology.fabrics import FABRICS, Fabric
from ringtree.topology.graph import Topology
from ringtree.topology.networks import NetworkShape

__all__ = ["Cluster", "NetworkShape"]

MOST_OVERSUBSCRIPTION = 1e6


@dataclass(frozen=True)
class Cluster:
    """A cluster: `nodes` times a machine. `oversubscription`: the leaves' bandwidth to the spine over the spine's, at
    least 1. `sharp`: the switches reduce. `nccl`: NCCL's release, such as (2, 27); None: unknown."""

    machine: Machine
    nodes: int = 1
    fabric: Fabric | None = None
    network: NetworkShape = NetworkShape.RAILS
    oversubscription: float = 1.0
    sharp: bool = False
    nccl: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        if self.nodes < 1:
            raise ValueError(f"{self.name}: {self.nodes} nodes; expected at least 1")
        if self.nodes > 1 and (self.fabric is None or not self.machine.nics) and shared_switch(self.machine) is None:
            missing = "no NIC: expected some, as --nics 8x400Gb" if self.fabric else "no fabric"
            raise ValueError(f"{self.name}: {self.nodes} nodes and {missing}")
        if not 1 <= self.oversubscription <= MOST_OVERSUBSCRIPTION:
            most = f"{MOST_OVERSUBSCRIPTION:g}"
            raise ValueError(
                f"{self.name}: oversubscription {self.oversubscription}; expected at least 1, at most {most}"
            )
        if self.network is NetworkShape.TORUS and self.oversubscription > 1:
            raise ValueError(f"{self.name}: oversubscription {self.oversubscription}; expected 1, a torus has no spine")
        if self.network is NetworkShape.TORUS and self.sharp:
            raise ValueError(f"{self.name}: expected no SHARP on a torus, which has no switches that reduce")
        if self.nodes > 1 and self.sharp and not (self.fabric and self.fabric.sharp):
            over = self.fabric.name if self.fabric else "no fabric"
            those = " or ".join(name for name, fabric in FABRICS.items() if fabric.sharp)
            raise ValueError(f"{self.name}: SHARP over {over}, where no switch reduces; expected {those}")

    @property
    def name(self) -> str:
        """The cluster's name, such as `dgx-h100 x4`; of one node the machine's name."""
        return self.machine.name if self.nodes == 1 else f"{self.machine.name} x{self.nodes}"

    @property
    def ranks(self) -> int:
        """GPUs in all, machine by machine; CPUs where a machine has no GPU."""
        return self.nodes * len(gpu_slots(self.machine))

    def check_network(self) -> None:
        """ValueError, in one line, where there are several nodes and a rank reaches no NIC, or a NIC has no rate."""
        if self.nodes > 1 and shared_switch(self.machine) is None:
            check_ports(contract(self.machine))

    def topology(self) -> Topology:
        """The ranks, machine by machine, then each machine's other devices ("node1/nic0"), then the network's
        switches. Routes from rank to rank are NCCL's paths, and cost no search. O(nodes times the machine's links).

        Bandwidths are those left for data. NVSwitches of the same GPUs are one node, and so are NICs that one GPU
        has to itself, side by side. ValueError where a rank reaches no NIC, or a NIC has no rate."""
        return wire(self.name, self.machine, self.nodes, self.fabric, self.network, self.oversubscription)
