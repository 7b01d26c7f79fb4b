"""From a cluster to its topology: a machine's devices and links so many times, and the network between."""

from __future__ import annotations

from itertools import chain

import numpy as np
from numpy.typing import NDArray

from ringtree.machines.contraction import Contracted, contract
from ringtree.machines.link_figures import data_Bps, latency_s
from ringtree.machines.machine import DeviceKind, Link, Machine
from ringtree.machines.ways import ways
from ringtree.topology.cluster_topology import ClusterTopology
from ringtree.topology.fabrics import Fabric
from ringtree.topology.graph import Topology
from ringtree.topology.networks import NO_WIRES, Network, Ports, leaves, torus

Ints = NDArray[np.int64]


def wire(
    name: str, machine: Machine, nodes: int, fabric: Fabric | None, network: Network, oversubscription: float
) -> ClusterTopology:
    """The topology of a cluster: see Cluster.topology."""
    one = contract(machine)
    places = _Places(one, nodes)
    wires = NO_WIRES
    if nodes > 1 and not places.shared:
        assert fabric is not None
        ports = Ports(places.of(np.array(one.machine.nics)), _port_Bps(one, fabric))
        wires = (
            torus(ports, fabric)
            if network is Network.TORUS
            else leaves(ports, fabric, places.count, network, oversubscription)
        )
    links = one.machine.links
    source, target = (places.of(np.array([getattr(k, end) for k in links], np.int64)) for end in ("source", "target"))
    inside = [(data_Bps(k), latency_s(k) + _of_nic(one.machine, k, fabric)) for k in links]
    bandwidth, latency = np.array(inside).reshape(-1, 2).T
    topology = Topology.of(
        name,
        nodes * one.seats,
        (*places.names(), *wires.switches),
        np.concatenate([source.ravel(), wires.source]),
        np.concatenate([target.ravel(), wires.target]),
        np.concatenate([np.tile(latency, nodes), wires.latency_s]),
        np.concatenate([np.tile(bandwidth, nodes), wires.bandwidth_Bps]),
        np.repeat(np.arange(nodes), one.seats),
    )
    return ClusterTopology.with_ways(topology, ways(one, fabric, wires if nodes > 1 else None, places.shared))


def _port_Bps(one: Contracted, fabric: Fabric) -> NDArray[np.float64]:
    """What each NIC carries: what the fabric leaves of its rate, or what the kernel moves for the ranks that use it."""
    machine = one.machine
    if -1 in one.home:
        rank = machine.devices[one.home.index(-1)].name
        raise ValueError(f"{machine.name}: {rank} reaches no NIC; expected a path to one, in the file or by --nics")
    users = np.bincount(one.home, minlength=len(machine.nics))
    rates = np.array([machine.devices[n].rate_Bps for n in machine.nics])
    if not np.all(rates > 0):
        nic = machine.devices[machine.nics[int(np.argmin(rates))]].name
        raise ValueError(f"{machine.name}: {nic} tells no rate; expected one, as --nics {len(rates)}x400Gb")
    return np.minimum(rates * fabric.payload, np.maximum(users, 1) * fabric.kernel_Bps)


def _of_nic(machine: Machine, link: Link, fabric: Fabric | None) -> float:
    """What software and the NIC have with a message at either end, seconds, on the link between NIC and machine."""
    kinds = {machine.devices[d].kind for d in (link.source, link.target)}
    return (fabric.latency_s - fabric.hop_s) / 2 if fabric and DeviceKind.NIC in kinds else 0.0


class _Places:
    """Which node a device of a machine is: the ranks first, machine by machine, then the other devices likewise, then
    the switches that all machines share."""

    def __init__(self, one: Contracted, nodes: int) -> None:
        self.one, self.nodes = one, nodes
        kinds = [d.kind for d in one.machine.devices]
        shared = [n for n, kind in enumerate(kinds) if kind is DeviceKind.SWITCH]
        own = [n for n in range(one.seats, len(kinds)) if n not in shared]
        self.shared, self.own = tuple(shared), tuple(own)
        self.count = nodes * (one.seats + len(own)) + len(shared)
        first, step = np.zeros(len(kinds), np.int64), np.zeros(len(kinds), np.int64)
        first[: one.seats], step[: one.seats] = np.arange(one.seats), one.seats
        first[own], step[own] = nodes * one.seats + np.arange(len(own)), len(own)
        first[shared] = self.count - len(shared) + np.arange(len(shared))
        self._first, self._step = first, step

    def of(self, devices: Ints) -> Ints:
        """Row i: those of machine i."""
        return self._first[devices] + np.arange(self.nodes)[:, None] * self._step[devices]

    def names(self) -> tuple[str, ...]:
        names = [d.name for d in self.one.machine.devices]
        prefixes = [f"node{i}/" for i in range(self.nodes)] if self.nodes > 1 else [""]
        ranks = (f"rank{r}" for r in range(self.nodes * self.one.seats))
        own = (prefix + names[n] for prefix in prefixes for n in self.own)
        return tuple(chain(ranks, own, (names[n] for n in self.shared)))
