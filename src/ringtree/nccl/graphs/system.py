"""A machine as NCCL's search sees it: the capacity of each edge, and the paths between GPUs and to the ports of NICs.

Bandwidths here are whole MB/s (10^6 bytes): NCCL's figures, their halves and eighths are then exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from ringtree.machines.clusters import Cluster
from ringtree.machines.machine import DeviceKind, LinkKind, PathKind
from ringtree.machines.parts import cpu_maker
from ringtree.machines.paths import Path, gdr, p2p, paths_of
from ringtree.nccl.link_speeds import LOCAL_GBps, nic_GBps, runs_rccl, seen

RCCL_SM = 90
"""The compute capability by which rules take RCCL's GPUs: all count as newer ones."""
NEAR_GPUS = (LinkKind.NVLINK, LinkKind.XGMI)
UNIT = 40
"""Bandwidth is counted in fortieths of a MB/s: a fifth more and an eighth are then whole numbers."""
INTEL_UNIT = UNIT * 6 // 5
"""An Intel CPU splits the data between GPUs that passes through it into small packets."""
VOLTA_REVERSE_UNIT = UNIT // 8
"""Before sm80, data that a GPU receives from another device than a GPU costs an eighth on the outward link."""


def MBps(GBps: float) -> int:
    """NCCL's GB/s in whole MB/s."""
    return round(GBps * 1000)


@dataclass(frozen=True, slots=True)
class Edge:
    """One direction, between devices by number; a port's own line goes from its NIC to the same. `reverse`: the edge
    back, -1 where there is none."""

    source: int
    target: int
    kind: LinkKind
    capacity_MBps: int
    reverse: int


@dataclass(frozen=True, slots=True)
class GraphPath:
    """A path: how far it goes, the edges on it, and the least capacity on it."""

    kind: PathKind
    edges: tuple[int, ...]
    capacity_MBps: int

    def then(self, rest: GraphPath, kind: PathKind) -> GraphPath:
        """This path and another, together of that kind."""
        return GraphPath(kind, self.edges + rest.edges, min(self.capacity_MBps, rest.capacity_MBps))


HERE = GraphPath(PathKind.LOC, (), MBps(LOCAL_GBps))
NOWHERE = GraphPath(PathKind.DIS, (), 0)


class System:
    """GPUs are local ranks, `nets` positions among the machine's NICs: none where the cluster is one machine. Systems
    are equal where a search cannot tell one from the other."""

    def __init__(self, cluster: Cluster) -> None:
        self.machine = seen(cluster.machine)
        self.paths, self.fabric = paths_of(self.machine), cluster.fabric
        self.devices, self.gpus = self.machine.devices, self.machine.gpus
        self.inter = cluster.nodes > 1
        self.nets = range(len(self.machine.nics) if self.inter else 0)
        self.switch = next(iter(self.machine.of_kind(DeviceKind.NVSWITCH)), -1)
        self.rccl = runs_rccl(self.machine)
        self.sm = RCCL_SM if self.rccl else min((self.devices[g].sm for g in self.gpus), default=0)
        self.cpu = next((cpu_maker(d) for d in self.devices if d.kind is DeviceKind.CPU), "")
        self._gpu_paths: dict[tuple[int, int], GraphPath] = {}
        self._charges: dict[GraphPath, tuple[tuple[int, int], ...]] = {}
        self._ends: dict[tuple[int, PathKind], tuple[set[int], set[int]]] = {}
        self._tried: dict[tuple[int, PathKind], tuple[int, ...]] = {}

    @cached_property
    def _seen(self) -> tuple[object, ...]:
        """All that decides the results of a search."""
        gpus = range(len(self.gpus))
        outward, inward = (tuple(map(tuple, paths)) for paths in self._net_paths)
        peers = tuple(self.gpu_path(a, b) for a in gpus for b in gpus)
        devices = tuple((device.kind, device.sm) for device in self.devices)
        return self.inter, self.rccl, self.sm, self.cpu, self.gpus, devices, self.edges, peers, outward, inward

    def __eq__(self, other: object) -> bool:
        return isinstance(other, System) and self._seen == other._seen

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash(self._seen)

    @cached_property
    def edges(self) -> tuple[Edge, ...]:
        """The machine's links by number, then each NIC's line out and in."""
        number = {(k.source, k.target, k.kind): n for n, k in enumerate(self.machine.links)}
        edges = [
            Edge(k.source, k.target, k.kind, MBps(k.bandwidth_Bps / 1e9), number.get((k.target, k.source, k.kind), -1))
            for k in self.machine.links
        ]
        for nic in self.machine.nics:
            out, rate = len(edges), MBps(nic_GBps(self.devices[nic]))
            edges += [Edge(nic, nic, LinkKind.ETHERNET, rate, out + 1), Edge(nic, nic, LinkKind.ETHERNET, rate, out)]
        return tuple(edges)

    def gpu_path(self, a: int, b: int) -> GraphPath:
        """The path of data from one GPU to another: through a CPU where there is no peer access."""
        if (a, b) not in self._gpu_paths:
            self._gpu_paths[a, b] = self._peer(a, b)
        return self._gpu_paths[a, b]

    def charges(self, path: GraphPath) -> tuple[tuple[int, int], ...]:
        """(edge, units) that each MB/s on a path costs."""
        if path not in self._charges:
            self._charges[path] = tuple(self._charge(path))
        return self._charges[path]

    def to_net(self, gpu: int, net: int) -> GraphPath:
        """The path from a GPU to a NIC's port, perhaps through another GPU (PXN)."""
        return self._net_paths[0][net][gpu]

    def from_net(self, net: int, gpu: int) -> GraphPath:
        """The path from a NIC's port to a GPU."""
        return self._net_paths[1][net][gpu]

    @cached_property
    def reaches_switch(self) -> bool:
        """Whether every GPU has a link to the NVSwitches, and one back."""
        return self.switch >= 0 and all(e >= 0 and self.edges[e].reverse >= 0 for e in self._up)

    def switch_path(self, gpu: int, out: bool) -> GraphPath:
        """Between a GPU and the NVSwitches that it has a link to."""
        edge = self._up[gpu] if out else self.edges[self._up[gpu]].reverse
        return GraphPath(PathKind.NVL, (edge,), self.edges[edge].capacity_MBps)

    @property
    def alone(self) -> bool:
        """Whether the system has one GPU and no NIC."""
        return not self.inter and len(self.gpus) == 1

    @cached_property
    def total_MBps(self) -> int:
        """The most any GPU can send: over all its NVLinks, or its PCIe link; over C2C where it has neither."""
        if self.alone:
            return MBps(LOCAL_GBps)
        gpus = range(len(self.gpus))
        most = max((max(self._sum(g, NEAR_GPUS), self.pcie_MBps(g)) for g in gpus), default=0)
        return most or max((self._sum(g, (LinkKind.C2C,)) for g in gpus), default=0)

    @cached_property
    def fastest_MBps(self) -> int:
        """The widest path of any GPU: to a NIC, or where it stays inside to another GPU."""
        gpus = range(len(self.gpus))
        if self.alone:
            return MBps(LOCAL_GBps)
        if self.inter:
            return max(self.to_net(g, n).capacity_MBps for g in gpus for n in self.nets)
        return max(self.gpu_path(a, b).capacity_MBps for a in gpus for b in gpus if a != b)

    @cached_property
    def gpu_kinds(self) -> tuple[PathKind, ...]:
        """The kinds of path between two GPUs."""
        gpus = range(len(self.gpus))
        return tuple(sorted({self.gpu_path(a, b).kind for a in gpus for b in gpus if a != b}))

    @cached_property
    def net_kinds(self) -> tuple[PathKind, ...]:
        """The kinds of path between a GPU and a NIC."""
        return tuple(sorted({path.kind for paths in self._net_paths for row in paths for path in row}))

    def net_MBps(self, net: int) -> int:
        """A NIC's line rate."""
        return MBps(nic_GBps(self.devices[self.machine.nics[net]]))

    def latency_s(self, net: int) -> float:
        """A NIC's own latency, from the machine's file or the catalogue."""
        return self.devices[self.machine.nics[net]].latency_s

    @cached_property
    def leaving_MBps(self) -> tuple[int, ...]:
        """Each GPU's sum over its outgoing links."""
        return tuple(self._sum(gpu, tuple(LinkKind)) for gpu in range(len(self.gpus)))

    def pcie_MBps(self, gpu: int) -> int:
        """The GPU's own PCIe link."""
        return self._sum(gpu, (LinkKind.PCIE,))

    @cached_property
    def local_nets(self) -> tuple[tuple[int, ...], ...]:
        """The NICs that each GPU prefers, the first one first: of those it reaches fastest and by the nearest kind of
        path, as many as there are for each GPU that has the same ones. Sends and receives take a NIC by another rule,
        without sharing the NICs out: `transport.exchange._to_nics`."""
        outward, inward = self._net_paths
        found: list[tuple[int, ...]] = []
        for gpu in range(len(self.gpus)):
            near = _nearest([paths[gpu] for paths in outward])
            sharers = len(_nearest(inward[near[0]])) or 1 if near else 1
            first = gpu % sharers
            if len(near) & (len(near) - 1) == 0:
                first = _mirrored(first, len(near))
            each = -(-len(near) // sharers)
            found.append(tuple(dict.fromkeys(near[(first + k) % len(near)] for k in range(each))))
        return tuple(found)

    @cached_property
    def near_gpus(self) -> tuple[tuple[int, ...], ...]:
        """The GPUs that each NIC reaches fastest, of them those by the nearest kind of path."""
        return tuple(_nearest(paths) for paths in self._net_paths[1])

    @cached_property
    def local_gpu(self) -> tuple[int, ...]:
        """The GPU near each NIC that prefers it most, -1 where none does."""
        out = []
        for net, gpus in enumerate(self.near_gpus):
            having = [(self.local_nets[g].index(net), k, g) for k, g in enumerate(gpus) if net in self.local_nets[g]]
            out.append(min(having)[2] if having else -1)
        return tuple(out)

    def ends(self, net: int, farthest: PathKind) -> tuple[set[int], set[int]]:
        """The GPUs that a NIC reaches, and that reach it, by a path of that kind or a nearer one."""
        if (net, farthest) not in self._ends:
            both = (self._net_paths[1][net], self._net_paths[0][net])
            into, back = ({g for g, path in enumerate(paths) if path.kind <= farthest} for paths in both)
            self._ends[net, farthest] = into, back
        return self._ends[net, farthest]

    def nets_to_try(self, gpu: int, farthest: PathKind) -> tuple[int, ...]:
        """The NICs for a GPU (-1: for any), those it prefers first, then others that are near enough."""
        if (gpu, farthest) not in self._tried:
            gpus = range(len(self.gpus)) if gpu < 0 else (gpu,)
            nets = [n for g in gpus for n in self.local_nets[g]]
            if len(set(nets)) < len(self.nets):
                far = [(self.to_net(g, n).kind, g, n) for g in gpus for n in self.nets]
                nets += [n for kind, _, n in sorted(far) if kind <= farthest]
            self._tried[gpu, farthest] = tuple(dict.fromkeys(nets))
        return self._tried[gpu, farthest]

    @cached_property
    def split(self) -> bool:
        """Whether NVLink joins the GPUs into two separate groups of several GPUs each."""
        groups: list[set[int]] = []
        for g in range(len(self.gpus)):
            own = next((s for s in groups if self.gpu_path(g, min(s)).kind is PathKind.NVL), None)
            if own is None:
                groups.append(own := set())
            own.add(g)
        return len(groups) == 2 and all(len(s) > 1 for s in groups)

    def _sum(self, gpu: int, kinds: tuple[LinkKind, ...]) -> int:
        mine = (self.edges[e] for e in self.machine.leaving(self.gpus[gpu]))
        return sum(e.capacity_MBps for e in mine if e.kind in kinds)

    def _charge(self, path: GraphPath) -> list[tuple[int, int]]:
        edges = [self.edges[e] for e in path.edges]
        if not edges:
            return []
        from_gpu = self.devices[edges[0].source].kind is DeviceKind.GPU
        by_cpu = any(self.devices[e.target].kind is DeviceKind.CPU for e in edges)
        more = from_gpu and by_cpu and path.kind is PathKind.PHB and self.cpu == "intel"
        charges = []
        for number, edge in zip(path.edges, edges, strict=True):
            target = self.devices[edge.target]
            charges.append((number, INTEL_UNIT if edge.kind is LinkKind.PCIE and more else UNIT))
            if edge.reverse < 0:
                continue
            if target.kind is DeviceKind.GPU and 0 < target.sm < 80 and not from_gpu:
                charges.append((edge.reverse, VOLTA_REVERSE_UNIT))
            if target.kind is DeviceKind.CPU and edge.kind is LinkKind.NVLINK and self.cpu == "ibm":
                charges.append((edge.reverse, UNIT))
        return charges

    @cached_property
    def _up(self) -> tuple[int, ...]:
        """The edge of each GPU to the NVSwitches, -1 where it has none."""
        leaving = ((e for e in self.machine.leaving(g) if self.edges[e].target == self.switch) for g in self.gpus)
        return tuple(next(edges, -1) for edges in leaving)

    def _peer(self, a: int, b: int) -> GraphPath:
        if a == b:
            return HERE
        if min(self._up[a], self._up[b]) >= 0 and self.edges[self._up[b]].reverse >= 0:
            return self.switch_path(a, True).then(self.switch_path(b, False), PathKind.NVL)
        if p2p(self.paths, a, b).applies:
            return self._way(self.paths.gpus(a, b))
        return self._by_cpu(self.gpus[a], self.gpus[b])

    @cached_property
    def _net_paths(self) -> tuple[list[list[GraphPath]], list[list[GraphPath]]]:
        """Paths to and from NICs, by NIC and GPU."""
        outward, inward = list[list[GraphPath]](), list[list[GraphPath]]()
        for net in self.nets:
            first = len(self.machine.links) + 2 * net
            out, into = (GraphPath(PathKind.LOC, (e,), self.edges[e].capacity_MBps) for e in (first, first + 1))
            both = [self._to_and_from(gpu, net) for gpu in range(len(self.gpus))]
            outward.append([to.then(out, to.kind) for to, _ in both])
            inward.append([into.then(back, back.kind) for _, back in both])
        return outward, inward

    def _to_and_from(self, gpu: int, net: int) -> tuple[GraphPath, GraphPath]:
        """Between a GPU and a NIC; through the CPU where the NIC may not touch the GPU's memory."""
        ends = (self.gpus[gpu], self.machine.nics[net])
        direct = gdr(self.paths, gpu, net, self.fabric, sends=False).applies
        to, back = self.paths.to_nic(gpu, net, self.fabric), self.paths.between(*ends[::-1])
        relayed = direct or to.kind is PathKind.PXN
        return (
            self._way(to) if relayed else self._by_cpu(*ends),
            self._way(back) if direct else self._by_cpu(*ends[::-1]),
        )

    def _by_cpu(self, source: int, target: int) -> GraphPath:
        """The path between devices through a CPU; the direct one where the machine has no CPU."""
        staged = self.paths.through_cpu(source, target)
        return self._way(staged if staged.kind is not PathKind.DIS else self.paths.between(source, target))

    def _way(self, path: Path) -> GraphPath:
        if path.kind is PathKind.DIS:
            return NOWHERE
        return GraphPath(path.kind, path.links, min(self.edges[e].capacity_MBps for e in path.links))


def _nearest(paths: list[GraphPath]) -> tuple[int, ...]:
    """The positions of the paths with the most capacity, of them those of the nearest kind."""
    if not paths or (best := min((-p.capacity_MBps, p.kind) for p in paths))[1] is PathKind.DIS:
        return ()
    return tuple(n for n, p in enumerate(paths) if (-p.capacity_MBps, p.kind) == best)


def _mirrored(value: int, power: int) -> int:
    """The bits below a power of two in reverse order."""
    bits = power.bit_length() - 1
    return sum(1 << (bits - 1 - b) for b in range(bits) if value >> b & 1)
