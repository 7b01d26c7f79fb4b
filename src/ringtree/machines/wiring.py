"""Turns a cluster into its topology: a machine's devices and links for each node, the network between, and the routes
of NCCL's data from GPU to GPU and between a GPU and a NIC, as tables."""

from __future__ import annotations

from itertools import chain

import numpy as np
from numpy.typing import NDArray

from ringtree.machines.contraction import Contracted, contract
from ringtree.machines.link_figures import data_Bps, latency_s
from ringtree.machines.machine import DeviceKind, Link, Machine, PathKind
from ringtree.machines.paths import NOWHERE, Path, Paths, gdr, p2p
from ringtree.topology.cluster_topology import ClusterTopology, MachineRoutes
from ringtree.topology.fabrics import Fabric
from ringtree.topology.graph import Topology
from ringtree.topology.networks import NO_WIRES, NetworkShape, Ports, Wires, leaves, torus

Ints = NDArray[np.int64]


def wire(
    name: str, machine: Machine, nodes: int, fabric: Fabric | None, network: NetworkShape, oversubscription: float
) -> ClusterTopology:
    """The topology of a cluster: see Cluster.topology."""
    one = contract(machine)
    numbers = _NodeNumbers(one, nodes)
    wires = NO_WIRES
    if nodes > 1 and not numbers.shared:
        assert fabric is not None
        ports = Ports(numbers.of(np.array(one.machine.nics)), _port_Bps(one, fabric))
        wires = (
            torus(ports, fabric)
            if network is NetworkShape.TORUS
            else leaves(ports, fabric, numbers.count, network, oversubscription)
        )
    links = one.machine.links
    source, target = (numbers.of(np.array([getattr(k, end) for k in links], np.int64)) for end in ("source", "target"))
    inside = [(data_Bps(k), latency_s(k) + _of_nic(one.machine, k, fabric)) for k in links]
    bandwidth, latency = np.array(inside).reshape(-1, 2).T
    topology = Topology.of(
        name,
        nodes * one.gpu_slots,
        (*numbers.names(), *wires.switches),
        np.concatenate([source.ravel(), wires.source]),
        np.concatenate([target.ravel(), wires.target]),
        np.concatenate([np.tile(latency, nodes), wires.latency_s]),
        np.concatenate([np.tile(bandwidth, nodes), wires.bandwidth_Bps]),
        np.repeat(np.arange(nodes), one.gpu_slots),
    )
    return ClusterTopology.with_routes(topology, _routes(one, fabric, wires if nodes > 1 else None, numbers.shared))


def _port_Bps(one: Contracted, fabric: Fabric) -> NDArray[np.float64]:
    """Each NIC's bandwidth, B/s: the fabric's share of its rate, or the kernel's bandwidth for the ranks that use
    it."""
    check_ports(one)
    machine = one.machine
    users = np.bincount(one.home, minlength=len(machine.nics))
    rates = np.array([machine.devices[n].rate_Bps for n in machine.nics])
    return np.minimum(rates * fabric.payload, np.maximum(users, 1) * fabric.kernel_Bps)


def check_ports(one: Contracted) -> None:
    """ValueError, in one line, where a rank reaches no NIC, or a NIC has no rate."""
    machine = one.machine
    if -1 in one.home:
        rank = machine.devices[one.home.index(-1)].name
        raise ValueError(f"{machine.name}: {rank} reaches no NIC; expected a path to one, in the file or by --nics")
    for nic in (machine.devices[n] for n in machine.nics):
        if not nic.rate_Bps > 0:
            raise ValueError(
                f"{machine.name}: {nic.name} has no rate; expected one, as --nics {len(machine.nics)}x400Gb"
            )


def _of_nic(machine: Machine, link: Link, fabric: Fabric | None) -> float:
    """Seconds that software and the NIC spend on a message at either end, on the link between NIC and machine."""
    kinds = {machine.devices[d].kind for d in (link.source, link.target)}
    return (fabric.latency_s - fabric.hop_s) / 2 if fabric and DeviceKind.NIC in kinds else 0.0


class _NodeNumbers:
    """The topology's node numbers of a machine's devices: the ranks first, machine by machine, then the other devices
    likewise, then the switches that all machines share."""

    def __init__(self, one: Contracted, nodes: int) -> None:
        self.one, self.nodes = one, nodes
        kinds = [d.kind for d in one.machine.devices]
        shared = [n for n, kind in enumerate(kinds) if kind is DeviceKind.SWITCH]
        own = [n for n in range(one.gpu_slots, len(kinds)) if n not in shared]
        self.shared, self.own = tuple(shared), tuple(own)
        self.count = nodes * (one.gpu_slots + len(own)) + len(shared)
        first, step = np.zeros(len(kinds), np.int64), np.zeros(len(kinds), np.int64)
        first[: one.gpu_slots], step[: one.gpu_slots] = np.arange(one.gpu_slots), one.gpu_slots
        first[own], step[own] = nodes * one.gpu_slots + np.arange(len(own)), len(own)
        first[shared] = self.count - len(shared) + np.arange(len(shared))
        self._first, self._step = first, step

    def of(self, devices: Ints) -> Ints:
        """Node numbers `[nodes, devices]`: row i is machine i's."""
        return self._first[devices] + np.arange(self.nodes)[:, None] * self._step[devices]

    def names(self) -> tuple[str, ...]:
        names = [d.name for d in self.one.machine.devices]
        prefixes = [f"node{i}/" for i in range(self.nodes)] if self.nodes > 1 else [""]
        ranks = (f"rank{r}" for r in range(self.nodes * self.one.gpu_slots))
        own = (prefix + names[n] for prefix in prefixes for n in self.own)
        return tuple(chain(ranks, own, (names[n] for n in self.shared)))


def _routes(one: Contracted, fabric: Fabric | None, wires: Wires | None, shared: tuple[int, ...]) -> MachineRoutes:
    """The routes inside a machine, of each pair of ranks, and of each rank and port: the NICs, or the first switch that
    all machines share; none for a single machine (`wires` None). Data that may not go directly, by P2P or GPUDirect
    RDMA, goes by the CPU."""
    paths, ranks = one.paths, range(one.gpu_slots)
    inside = [[_inside(paths, a, b) for b in ranks] for a in ranks]
    home: tuple[int, ...] = (0,) * one.gpu_slots
    out = into = [[NOWHERE] * one.gpu_slots] * one.gpu_slots
    leaves_by = [[0] * one.gpu_slots] * one.gpu_slots
    if shared:
        out = [[paths.between(a, shared[0])] for a in ranks]
        into = [[paths.between(shared[0], b) for b in ranks]]
    elif wires:
        home, ports = one.home, range(len(one.machine.nics))
        out = [[_out(paths, one, a, nic, fabric) for nic in ports] for a in ranks]
        into = [[_into(paths, one, nic, b, fabric) for b in ranks] for nic in ports]
        leaves_by = [[_leaves_by(out[a], home[a], home[b]) for b in ranks] for a in ranks]
    return MachineRoutes(
        one.gpu_slots,
        len(one.machine.links),
        _table(inside),
        _there(inside),
        np.array(home),
        np.array(leaves_by),
        _table(out),
        _there(out),
        _table(into),
        _there(into),
        wires or NO_WIRES,
    )


def _leaves_by(out: list[Path], own: int, other: int) -> int:
    """The NIC by which a rank sends to a rank of another machine: the receiver's NIC `other`, where it is as near as
    the rank's own, or another GPU forwards to it."""
    if own < 0 or other < 0:
        return own
    as_near = out[other].kind is PathKind.PXN or (
        out[other].kind <= out[own].kind and out[other].bandwidth_Bps >= out[own].bandwidth_Bps
    )
    return other if as_near else own


def _inside(paths: Paths, a: int, b: int) -> Path:
    direct = paths.between(a, b)
    if not PathKind.NVB < direct.kind < PathKind.DIS or not paths.machine.gpus or p2p(paths, a, b).applies:
        return direct
    return _bounced(paths, a, b)


def _out(paths: Paths, one: Contracted, rank: int, nic: int, fabric: Fabric | None) -> Path:
    port = one.machine.nics[nic]
    if not one.machine.gpus:
        return paths.between(rank, port)
    relayed = paths.to_nic(rank, nic, fabric)
    if relayed.kind is PathKind.PXN or gdr(paths, rank, nic, fabric).applies:
        return relayed
    return _bounced(paths, rank, port)


def _into(paths: Paths, one: Contracted, nic: int, rank: int, fabric: Fabric | None) -> Path:
    port = one.machine.nics[nic]
    if not one.machine.gpus or gdr(paths, rank, nic, fabric, sends=False).applies:
        return paths.between(port, rank)
    return _bounced(paths, port, rank)


def _bounced(paths: Paths, source: int, target: int) -> Path:
    """The path through the source's CPU, where there is one."""
    bounced = paths.through_cpu(source, target)
    return paths.between(source, target) if bounced.kind is PathKind.DIS else bounced


def _there(paths: list[list[Path]]) -> NDArray[np.bool_]:
    return np.array([[p.kind is not PathKind.DIS for p in row] for row in paths], np.bool_).reshape(len(paths), -1)


def _table(paths: list[list[Path]]) -> Ints:
    """Each path's links along the last axis, padded with -1."""
    longest = max((len(p.links) for row in paths for p in row), default=0)
    rows = [[[*p.links, *[-1] * (longest - len(p.links))] for p in row] for row in paths]
    return np.array(rows, np.int64).reshape(len(paths), len(paths[0]) if paths else 0, longest)
