"""A machine as NCCL sees it: all NVSwitches one node, each NIC with its port behind it, its own figure for each link.

Bandwidths here are whole MB/s (10^6 bytes): NCCL's figures, halves and eighths of them are exact so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from ringtree.topology.clusters import Cluster
from ringtree.topology.machine import Device, DeviceKind, LinkKind, Machine, PathKind
from ringtree.topology.nccl_speeds import LOCAL_GBps, is_of, link_GBps, nic_GBps

KINDS = {
    LinkKind.NVLINK: PathKind.NVL,
    LinkKind.XGMI: PathKind.NVL,
    LinkKind.C2C: PathKind.C2C,
    LinkKind.PCIE: PathKind.PIX,
    LinkKind.CPU: PathKind.SYS,
    LinkKind.SHM: PathKind.SYS,
}
P2P_FARTHEST = PathKind.PXB
"""Two GPUs that are farther apart do not read one another's memory: their data goes through the CPU."""
GDR_FARTHEST = PathKind.P2C


def MBps(GBps: float) -> int:
    """Whole MB/s of NCCL's GB/s."""
    return round(GBps * 1000)


@dataclass(frozen=True, slots=True)
class Edge:
    """One way, between nodes by number; `reverse` is the edge back."""

    source: int
    target: int
    kind: PathKind
    capacity_MBps: int
    reverse: int


@dataclass(frozen=True, slots=True)
class Way:
    """A path: the edges on it, how far it goes, and the least capacity on it."""

    kind: PathKind
    edges: tuple[int, ...]
    capacity_MBps: int

    def through(self, rest: Way, kind: PathKind) -> Way:
        """This path and then another; C2C and then a host bridge are P2C."""
        farthest = max(self.kind, rest.kind, kind)
        if farthest is PathKind.PHB and min(self.kind, rest.kind) is PathKind.C2C:
            farthest = PathKind.P2C
        return Way(farthest, self.edges + rest.edges, min(self.capacity_MBps, rest.capacity_MBps))


NOWHERE = Way(PathKind.DIS, (), 0)
HERE = Way(PathKind.LOC, (), MBps(LOCAL_GBps))


class System:
    """`gpus` and `nets` are node numbers by local rank and by place among the machine's NICs. A net is the port of a
    NIC; it is only there where the cluster has several nodes."""

    def __init__(self, cluster: Cluster) -> None:
        machine = cluster.machine
        self.inter = cluster.nodes > 1
        self.gdr = cluster.fabric is None or cluster.fabric.gdr
        self.devices: list[Device] = []
        self.edges: list[Edge] = []
        self.leaving: list[list[int]] = []
        self.switch = -1
        number = [self._node(d) for d in machine.devices]
        self._join(machine, number)
        self.gpus = tuple(number[g] for g in machine.gpus)
        self.nets = tuple(self._port(number[n]) for n in machine.nics) if self.inter else ()
        self.sm = min((self.devices[g].sm for g in self.gpus), default=0)
        cpus = [d for d in self.devices if d.kind is DeviceKind.CPU]
        self.cpu = is_of(cpus[0]) if cpus else ""

    def gpu_way(self, a: int, b: int) -> Way:
        """From one GPU to another, by local rank, as the data goes: through a CPU where there is no peer access."""
        return self._gpu_ways[a][b]

    def to_net(self, gpu: int, net: int) -> Way:
        """From a GPU to a NIC's port, perhaps through another GPU (PXN)."""
        return self._net_ways[0][net][gpu]

    def from_net(self, net: int, gpu: int) -> Way:
        """From a NIC's port to a GPU."""
        return self._net_ways[1][net][gpu]

    def switch_way(self, gpu: int, out: bool) -> Way:
        """Between a GPU and the NVSwitches; only where there are some."""
        node = self.gpus[gpu]
        edge = next(e for e in self.leaving[node] if self.edges[e].target == self.switch)
        way = self.edges[edge]
        return Way(way.kind, (edge if out else way.reverse,), way.capacity_MBps)

    @property
    def alone(self) -> bool:
        """Whether one GPU is all there is."""
        return not self.inter and len(self.gpus) == 1

    @cached_property
    def total_MBps(self) -> int:
        """The most any GPU can send: over all its NVLinks, or its PCIe link."""
        if self.alone:
            return MBps(LOCAL_GBps)
        return max((max(self._sum(g, PathKind.NVL), self.pcie_MBps(g)) for g in range(len(self.gpus))), default=0)

    @cached_property
    def fastest_MBps(self) -> int:
        """The widest path of any GPU: to a NIC, or where it stays inside to another GPU."""
        gpus = range(len(self.gpus))
        if self.inter:
            return max(self.to_net(g, n).capacity_MBps for g in gpus for n in range(len(self.nets)))
        if self.alone:
            return MBps(LOCAL_GBps)
        return max(self.gpu_way(a, b).capacity_MBps for a in gpus for b in gpus if a != b)

    @cached_property
    def gpu_kinds(self) -> tuple[PathKind, ...]:
        """The kinds of path between two GPUs."""
        gpus = range(len(self.gpus))
        return tuple(sorted({self.gpu_way(a, b).kind for a in gpus for b in gpus if a != b}))

    @cached_property
    def net_kinds(self) -> tuple[PathKind, ...]:
        """The kinds of path between a GPU and a NIC."""
        return tuple(sorted({way.kind for ways in self._net_ways for row in ways for way in row}))

    def leaving_MBps(self, gpu: int) -> int:
        """All that a GPU can send over its links."""
        return sum(self.edges[e].capacity_MBps for e in self.leaving[self.gpus[gpu]])

    def capacity_of_net(self, net: int) -> int:
        """A NIC's line rate, in MB/s."""
        return MBps(nic_GBps(self.devices[self.nets[net]]))

    def latency_s(self, net: int) -> float:
        """A NIC's own latency, as its file or the catalogue tells."""
        return self.devices[self.nets[net]].latency_s

    def pcie_MBps(self, gpu: int) -> int:
        """The GPU's own PCIe link."""
        return self._sum(gpu, PathKind.PIX)

    @cached_property
    def local_nets(self) -> tuple[tuple[int, ...], ...]:
        """For each GPU the NICs it prefers, the first one first: those it reaches fastest, then by the shortest path,
        shared out among the GPUs that have the same ones."""
        return _favoured(*self._net_ways)

    @cached_property
    def local_gpu(self) -> tuple[int, ...]:
        """For each NIC the GPU that prefers it, -1 where none does."""
        return tuple(_takes(n, self.near_gpus[n], self.local_nets) for n in range(len(self.nets)))

    @cached_property
    def near_gpus(self) -> tuple[tuple[int, ...], ...]:
        """For each NIC the GPUs it reaches fastest, of them those by the shortest path."""
        return tuple(_nearest(ways) for ways in self._net_ways[1])

    def ends(self, net: int, farthest: PathKind) -> tuple[set[int], set[int]]:
        """The GPUs that a NIC reaches, and that reach it, by a path of that kind or a nearer one."""
        if (net, farthest) not in self._ends:
            both = (self._net_ways[1][net], self._net_ways[0][net])
            into, back = ({g for g, way in enumerate(ways) if way.kind <= farthest} for ways in both)
            self._ends[net, farthest] = into, back
        return self._ends[net, farthest]

    def nets_to_try(self, gpu: int, farthest: PathKind) -> tuple[int, ...]:
        """The NICs for a GPU (-1: for any), those it prefers first, then others that are near enough."""
        if (gpu, farthest) not in self._tried:
            gpus = range(len(self.gpus)) if gpu < 0 else (gpu,)
            nets = [n for g in gpus for n in self.local_nets[g]]
            if len(set(nets)) < len(self.nets):
                far = [(self.to_net(g, n).kind, g, n) for g in gpus for n in range(len(self.nets))]
                nets += [n for kind, _, n in sorted(far) if kind <= farthest]
            self._tried[gpu, farthest] = tuple(dict.fromkeys(nets))
        return self._tried[gpu, farthest]

    @cached_property
    def _ends(self) -> dict[tuple[int, PathKind], tuple[set[int], set[int]]]:
        return {}

    @cached_property
    def _tried(self) -> dict[tuple[int, PathKind], tuple[int, ...]]:
        return {}

    @cached_property
    def split(self) -> bool:
        """Whether NVLink joins the GPUs to two groups of several, apart from one another."""
        groups: list[set[int]] = []
        for g in range(len(self.gpus)):
            own = next((s for s in groups if self.gpu_way(g, min(s)).kind is PathKind.NVL), None)
            if own is None:
                groups.append(own := set())
            own.add(g)
        return len(groups) == 2 and all(len(s) > 1 for s in groups)

    def _node(self, device: Device) -> int:
        if device.kind is DeviceKind.NVSWITCH and self.switch >= 0:
            return self.switch
        self.devices.append(device)
        self.leaving.append([])
        if device.kind is DeviceKind.NVSWITCH:
            self.switch = len(self.devices) - 1
        return len(self.devices) - 1

    def _join(self, machine: Machine, number: list[int]) -> None:
        capacities: dict[tuple[int, int, PathKind], int] = {}
        for link in machine.links:
            a, b = number[link.source], number[link.target]
            if a == b or link.kind not in KINDS:
                continue
            key = (a, b, KINDS[link.kind])
            capacities[key] = capacities.get(key, 0) + MBps(link_GBps(link, self.devices[a], self.devices[b]))
        for (a, b, kind), capacity in capacities.items():
            back = capacities.get((b, a, kind))
            if back is not None and a < b:
                self._edge(a, b, kind, capacity, back)

    def _edge(self, a: int, b: int, kind: PathKind, there: int, back: int) -> None:
        n = len(self.edges)
        self.edges += [Edge(a, b, kind, there, n + 1), Edge(b, a, kind, back, n)]
        self.leaving[a].append(n)
        self.leaving[b].append(n + 1)

    def _port(self, nic: int) -> int:
        """The node behind a NIC that is its port: a link of the line rate."""
        device = self.devices[nic]
        self.devices.append(device)
        self.leaving.append([])
        rate = MBps(nic_GBps(device))
        self._edge(nic, len(self.devices) - 1, PathKind.LOC, rate, rate)
        return len(self.devices) - 1

    def _sum(self, gpu: int, kind: PathKind) -> int:
        mine = [self.edges[e] for e in self.leaving[self.gpus[gpu]]]
        return sum(e.capacity_MBps for e in mine if e.kind is kind)

    def _ways_from(self, start: int) -> dict[int, Way]:
        """The best path to every node: the nearest kind, then the most capacity, then the fewest edges."""
        ways, level = {start: HERE}, [start]
        while level:
            reached: dict[int, None] = {}
            for node in level:
                for edge, way in self._onward(start, node, ways[node]):
                    target, old = self.edges[edge].target, ways.get(self.edges[edge].target, NOWHERE)
                    if _rank(way) < _rank(old):
                        ways[target] = way
                        reached[target] = None
            level = list(reached)
        return ways

    def _onward(self, start: int, node: int, way: Way) -> Iterator[tuple[int, Way]]:
        through_gpu = node != start and self.devices[node].kind is DeviceKind.GPU
        for e in self.leaving[node]:
            edge = self.edges[e]
            target = self.devices[edge.target].kind
            kind = edge.kind
            if through_gpu:
                if kind is not PathKind.NVL or target is not DeviceKind.GPU or len(way.edges) > 1:
                    continue
                kind = PathKind.NVB
            elif kind is PathKind.PIX:
                ends = (self.devices[node].kind, target)
                kind = PathKind.PHB if DeviceKind.CPU in ends else PathKind.PXB if ends[0] is ends[1] else kind
            yield e, Way(max(way.kind, kind), (*way.edges, e), min(way.capacity_MBps, edge.capacity_MBps))

    @cached_property
    def _gpu_ways(self) -> tuple[tuple[Way, ...], ...]:
        return tuple(tuple(self._peer(a, b) for b in range(len(self.gpus))) for a in range(len(self.gpus)))

    def _peer(self, a: int, b: int) -> Way:
        if a == b:
            return HERE
        if self._on_switch[a] and self._on_switch[b]:
            return self.switch_way(a, True).through(self.switch_way(b, False), PathKind.NVL)
        way = self._from(self.gpus[a]).get(self.gpus[b], NOWHERE)
        few = self.cpu == "amd" and len(self.gpus) <= 2
        farthest = PathKind.SYS if few else P2P_FARTHEST
        return way if way.kind <= farthest else self._through_cpu(self.gpus[a], self.gpus[b], b)

    def _through_cpu(self, start: int, end: int, gpu: int) -> Way:
        """By way of the CPU that a GPU is near: where neither device may read the other's memory."""
        near = {n: w for n, w in self._from(self.gpus[gpu]).items() if self.devices[n].kind is DeviceKind.CPU}
        if not near:
            return self._from(start).get(end, NOWHERE)
        cpu = min(near, key=lambda n: (-near[n].capacity_MBps, near[n].kind, len(near[n].edges)))
        first, last = self._from(start).get(cpu, NOWHERE), self._from(cpu).get(end, NOWHERE)
        return first.through(last, PathKind.LOC)

    def _from(self, node: int) -> dict[int, Way]:
        if node not in self._found:
            self._found[node] = self._ways_from(node)
        return self._found[node]

    @cached_property
    def _found(self) -> dict[int, dict[int, Way]]:
        return {}

    @cached_property
    def _on_switch(self) -> tuple[bool, ...]:
        return tuple(any(self.edges[e].target == self.switch for e in self.leaving[g]) for g in self.gpus)

    @cached_property
    def _net_ways(self) -> tuple[list[list[Way]], list[list[Way]]]:
        """(to, from) by NIC and GPU."""
        inward = [[self._from(n).get(g, NOWHERE) for g in self.gpus] for n in self.nets]
        outward = [[self._back(way) for way in ways] for ways in inward]
        for g in range(len(self.gpus)):
            for n in _nearest([ways[g] for ways in outward]):
                if self._by_c2c(g, n):
                    inward[n][g] = replace(inward[n][g], kind=min(PathKind.P2C, inward[n][g].kind))
                    outward[n][g] = self._back(inward[n][g])
        favoured = _favoured(outward, inward)
        for n, ways in enumerate(outward):
            local = _takes(n, _nearest(inward[n]), favoured)
            for g in range(len(self.gpus)):
                if local >= 0 and local != g and self._relays(n, g, local, ways):
                    ways[g] = self.gpu_way(g, local).through(ways[local], PathKind.PXN)
                if ways[g].kind < PathKind.PHB and not self._gdr(n, g, ways[g], ways[local]):
                    ways[g] = self._through_cpu(self.gpus[g], self.nets[n], g)
                    inward[n][g] = self._through_cpu(self.nets[n], self.gpus[g], g)
        return outward, inward

    def _back(self, way: Way) -> Way:
        edges = tuple(self.edges[e].reverse for e in reversed(way.edges))
        capacity = min((self.edges[e].capacity_MBps for e in edges), default=0)
        return replace(way, edges=edges, capacity_MBps=capacity)

    def _by_c2c(self, gpu: int, net: int) -> bool:
        """Whether a GPU reaches a NIC over the CPU's own link and that CPU's PCIe."""
        cpus = [(w, n) for n, w in self._from(self.gpus[gpu]).items() if self.devices[n].kind is DeviceKind.CPU]
        if not cpus:
            return False
        way, cpu = min(cpus, key=lambda c: (-c[0].capacity_MBps, c[0].kind, len(c[0].edges)))
        onward = self._from(cpu).get(self.nets[net], NOWHERE)
        return {way.kind, onward.kind} == {PathKind.C2C, PathKind.PHB}

    def _relays(self, net: int, gpu: int, local: int, ways: list[Way]) -> bool:
        """Whether a GPU sends to a NIC through the GPU that is local to it: PXN."""
        near, own = ways[local], ways[gpu]
        return (
            near.kind <= GDR_FARTHEST
            and self._gdr(net, local, near, near)
            and self.gpu_way(local, gpu).kind <= PathKind.NVL
            and (near.capacity_MBps > own.capacity_MBps or own.kind > PathKind.PXN)
        )

    def _gdr(self, net: int, gpu: int, way: Way, relay: Way) -> bool:
        distance = relay.kind if way.kind is PathKind.PXN else way.kind
        able = self.gdr and self.devices[self.nets[net]].gdr and self.devices[self.gpus[gpu]].gdr
        return able and distance <= GDR_FARTHEST


def _rank(way: Way) -> tuple[int, int, int]:
    return way.kind, -way.capacity_MBps, len(way.edges)


def _nearest(ways: list[Way]) -> tuple[int, ...]:
    """The places of those with the most capacity, of them those of the nearest kind."""
    if not ways or (best := min((-w.capacity_MBps, w.kind) for w in ways))[1] is PathKind.DIS:
        return ()
    return tuple(n for n, w in enumerate(ways) if (-w.capacity_MBps, w.kind) == best)


def _favoured(outward: list[list[Way]], inward: list[list[Way]]) -> tuple[tuple[int, ...], ...]:
    """For each GPU its NICs: where GPUs share some, each starts at one of its own."""
    found: list[tuple[int, ...]] = []
    for g in range(len(outward[0]) if outward else 0):
        near = _nearest([ways[g] for ways in outward])
        if not near:
            found.append(())
            continue
        sharers = len(_nearest(inward[near[0]])) or 1
        first = g % sharers
        if len(near) & (len(near) - 1) == 0:
            first = _mirrored(first, len(near))
        each = -(-len(near) // sharers)
        found.append(tuple(dict.fromkeys(near[(first + k) % len(near)] for k in range(each))))
    return tuple(found)


def _mirrored(value: int, power: int) -> int:
    """The bits below a power of two in reverse order."""
    bits = power.bit_length() - 1
    return sum(1 << (bits - 1 - b) for b in range(bits) if value >> b & 1)


def _takes(net: int, gpus: tuple[int, ...], favoured: tuple[tuple[int, ...], ...]) -> int:
    """Of the GPUs near a NIC the one that has it first among its own; -1 where none has it."""
    having = [(favoured[g].index(net), k, g) for k, g in enumerate(gpus) if net in favoured[g]]
    return min(having)[2] if having else -1
