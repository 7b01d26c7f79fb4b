"""The paths between devices of a machine, as NCCL finds them, and whether data goes directly."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache
from heapq import heappop, heappush
from math import inf

from ringtree.machines.machine import Device, DeviceKind, Link, LinkKind, Machine, PathKind
from ringtree.machines.parts import cpu_maker
from ringtree.topology.fabrics import Fabric

NETWORKS = frozenset({LinkKind.ETHERNET, LinkKind.INFINIBAND})
NEAR_GPUS = frozenset({LinkKind.NVLINK, LinkKind.XGMI})
"""Links that join GPUs: NVLink for NCCL, xGMI for RCCL."""
AMPERE = 80
_WITHOUT_P2P = re.compile(r"\b(GeForce|RTX)\b.*\b[345]0[5-9]0\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Path:
    """`links` are the machine's, by number, in order; none from a device to itself, or where `kind` is DIS.
    `bandwidth_Bps` is the narrowest link's (infinite where there is none), `latency_s` all links' together."""

    kind: PathKind
    links: tuple[int, ...]
    bandwidth_Bps: float
    latency_s: float

    def then(self, rest: Path, kind: PathKind) -> Path:
        """This path and another, together of that kind."""
        bandwidth_Bps = min(self.bandwidth_Bps, rest.bandwidth_Bps)
        return Path(kind, self.links + rest.links, bandwidth_Bps, self.latency_s + rest.latency_s)


@dataclass(frozen=True, slots=True)
class RuleVerdict:
    """Whether a rule applies, and the reason; where it does not, also the remedy."""

    applies: bool
    why: str


NOWHERE = Path(PathKind.DIS, (), 0.0, inf)


@dataclass(frozen=True, slots=True)
class _Reached:
    """A device that a search has reached: the path's figures, and its last link."""

    kind: PathKind
    bandwidth_Bps: float
    latency_s: float
    last: int


class Paths:
    """The paths of a machine. The first query about a device costs a search from it, O(links log devices)."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self._trees: dict[int, _Tree] = {}
        self._known: dict[tuple[int, int], Path] = {}
        self._cpu: dict[int, int | None] = {}

    def between(self, source: int, target: int) -> Path:
        """The path between two devices, by number: of the nearest kind, then the most bandwidth, then the fewest links.
        No path goes through a GPU, but one of NVLinks alone, or through a NIC, but to its network."""
        path = self._known.get((source, target))
        if path is None:
            tree = self._trees.get(source) or self._trees.setdefault(
                source, _Tree(self.machine, self._steps, self._joined, source)
            )
            path = self._known[source, target] = tree.path(target)
        return path

    def gpus(self, a: int, b: int) -> Path:
        """The path between GPUs by local rank."""
        return self.between(self.machine.gpus[a], self.machine.gpus[b])

    def to_nic(self, gpu: int, nic: int, fabric: Fabric | None = None) -> Path:
        """The path from a GPU, by local rank, to a NIC, by its position among the machine's, as NCCL sends: through
        another GPU (PXN) that is near the NIC, with GPUDirect RDMA, and an NVLink away, where that is faster or spares
        the CPU; never by a NIC whose attribute `pxn` is 0."""
        own = self.between(self.machine.gpus[gpu], self.machine.nics[nic])
        relay = self._neighbour[nic]
        if relay is None or relay == gpu or self.machine.devices[self.machine.nics[nic]].attributes.get("pxn") == "0":
            return own
        first, then = self.gpus(gpu, relay), self.between(self.machine.gpus[relay], self.machine.nics[nic])
        better = then.bandwidth_Bps > own.bandwidth_Bps or own.kind > PathKind.PXN
        if not (first.kind is PathKind.NVL and better and gdr(self, relay, nic, fabric).applies):
            return own
        return first.then(then, PathKind.PXN)

    def through_cpu(self, source: int, target: int) -> Path:
        """The path of data that may not go directly, through the source's own CPU, by device number. DIS where the
        machine lists no CPU."""
        cpu = self.cpu(source)
        if cpu is None:
            return NOWHERE
        first, then = self.between(source, cpu), self.between(cpu, target)
        if then.kind is PathKind.DIS:
            return NOWHERE
        return first.then(then, max(first.kind, then.kind, PathKind.PHB))

    def cpu(self, device: int) -> int | None:
        """The number of the CPU a device is nearest to, if any."""
        if device not in self._cpu:
            cpus = self.machine.of_kind(DeviceKind.CPU)
            reached = [(self.between(device, c).kind, len(self.between(device, c).links), c) for c in cpus]
            kind, _, nearest = min(reached, default=(PathKind.DIS, 0, -1))
            self._cpu[device] = None if kind is PathKind.DIS else nearest
        return self._cpu[device]

    def nearest_nics(self, gpu: int) -> tuple[int, ...]:
        """The NICs nearest to a GPU, by local rank, as positions among the machine's: of the most bandwidth, their
        ports' counted, then of the nearest kind. All that are equal, none where it reaches none. The NICs that NCCL's
        channels take are shared out among the GPUs: `nccl.graphs.system.System.local_nets`."""
        return self.nics_near(self.machine.gpus[gpu])

    def nics_near(self, device: int) -> tuple[int, ...]:
        """`nearest_nics` of any device, by its number."""
        found = [(self.between(device, n), self.machine.devices[n]) for n in self.machine.nics]
        worth = [(min(path.bandwidth_Bps, nic.rate_Bps or inf), -path.kind) for path, nic in found]
        best = max(worth, default=(0.0, -PathKind.DIS))
        return tuple(k for k, w in enumerate(worth) if w == best and w[1] != -PathKind.DIS)

    @cached_property
    def p2p_level(self) -> PathKind:
        """The farthest path on which NCCL lets GPUs read one another: PXB, or SYS where there are two at most and all
        CPUs are AMD's."""
        makers = {cpu_maker(self.machine.devices[c]) for c in self.machine.of_kind(DeviceKind.CPU)}
        return PathKind.SYS if makers == {"amd"} and len(self.machine.gpus) <= 2 else PathKind.PXB

    @cached_property
    def _steps(self) -> tuple[tuple[_Step, ...], ...]:
        """The links that leave each device."""
        leaving = self.machine.leaving
        return tuple(tuple(_step(self.machine, n) for n in leaving(d)) for d in range(len(self.machine.devices)))

    @cached_property
    def _joined(self) -> tuple[frozenset[int], ...]:
        """Each device with the GPUs that it shares an NVLink with."""
        return tuple(frozenset({d}.union(s.target for s in of if s.joins_gpus)) for d, of in enumerate(self._steps))

    @cached_property
    def _neighbour(self) -> tuple[int | None, ...]:
        """The GPU nearest to each NIC, by local rank; NICs that share their GPUs have one each."""
        out: list[int | None] = []
        taken: dict[int, int] = {}
        for n in self.machine.nics:
            near = [self.between(g, n) for g in self.machine.gpus]
            worth = [(-p.kind, p.bandwidth_Bps) for p in near]
            most = max(worth, default=None)
            best = [k for k, w in enumerate(worth) if w == most and near[k].kind is not PathKind.DIS]
            position = min(best, key=lambda k: taken.get(k, 0), default=None)
            if position is not None:
                taken[position] = taken.get(position, 0) + 1
            out.append(position)
        return tuple(out)


@lru_cache(maxsize=64)
def paths_of(machine: Machine) -> Paths:
    """The machine's paths, for all who ask: an estimate needs them often, and that of an interval for many machines."""
    return Paths(machine)


class _Tree:
    """The path to every device that can be reached from one, found nearest first."""

    def __init__(
        self,
        machine: Machine,
        steps: tuple[tuple[_Step, ...], ...],
        joined: tuple[frozenset[int], ...],
        source: int,
    ) -> None:
        self.machine, self.source = machine, source
        self.reached: dict[int, _Reached] = {}
        queue = [(PathKind.LOC, -inf, 0, source, -1)]
        while queue:
            kind, narrow, count, device, last = heappop(queue)
            if device in self.reached:
                continue
            came = machine.links[last] if count else None
            latency_s = self.reached[came.source].latency_s + came.latency_s if came else 0.0
            self.reached[device] = _Reached(kind, -narrow, latency_s, last)
            ends = machine.devices[device].kind
            hands_on = came is not None and ends is DeviceKind.GPU
            if hands_on and joined[device] <= joined[source]:
                continue  # every device beyond it is nearer by a link of the source's own
            for step in steps[device]:
                if step.target not in self.reached and (came is None or _goes_on(came, count, ends, step)):
                    further = max(kind, PathKind.NVB if hands_on else step.kind)
                    heappush(queue, (further, max(narrow, step.narrow), count + 1, step.target, step.link))

    def path(self, target: int) -> Path:
        found = self.reached.get(target)
        if found is None:
            return NOWHERE
        links, device = list[int](), target
        while device != self.source:
            links.append(self.reached[device].last)
            device = self.machine.links[links[-1]].source
        kind = found.kind
        if kind is PathKind.PHB and self._by_c2c(links[::-1]):
            kind = PathKind.P2C
        return Path(kind, tuple(reversed(links)), found.bandwidth_Bps, found.latency_s)

    def _by_c2c(self, links: list[int]) -> bool:
        """Whether a path is GPU - C2C - CPU - PCIe - NIC, or back."""
        first, last = self.machine.links[links[0]], self.machine.links[links[-1]]
        ends = [self.machine.devices[d].kind for d in (first.source, last.target)]
        of_gpu = first if ends[0] is DeviceKind.GPU else last
        return {*ends} == {DeviceKind.GPU, DeviceKind.NIC} and of_gpu.kind in (LinkKind.C2C, LinkKind.XGMI)


@dataclass(frozen=True, slots=True)
class _Step:
    """A link as a search takes it. `narrow` is its bandwidth, less than 0; `joins_gpus` by NVLink or xGMI; `leaves` to
    a network."""

    link: int
    target: int
    kind: PathKind
    narrow: float
    joins_gpus: bool
    leaves: bool


def _goes_on(came: Link, count: int, through: DeviceKind, step: _Step) -> bool:
    """Whether a path of `count` links, of which the last is `came`, goes on through a device of that kind."""
    if through is DeviceKind.GPU:
        return count == 1 and came.kind in NEAR_GPUS and step.joins_gpus
    if through is DeviceKind.NIC:
        return step.leaves or came.kind in NETWORKS
    return through is not DeviceKind.STORAGE


def _step(machine: Machine, number: int) -> _Step:
    link = machine.links[number]
    ends = [machine.devices[d].kind for d in (link.source, link.target)]
    joins_gpus = link.kind in NEAR_GPUS and ends == [DeviceKind.GPU, DeviceKind.GPU]
    kind = _kind(link, {*ends})
    return _Step(number, link.target, kind, -link.bandwidth_Bps, joins_gpus, link.kind in NETWORKS)


def _kind(link: Link, ends: set[DeviceKind]) -> PathKind:
    """The kind of a path after one more link."""
    if link.kind in NETWORKS:
        return PathKind.NET
    if link.kind is LinkKind.CPU:
        return PathKind.SYS
    if link.kind is LinkKind.C2C or (link.kind is LinkKind.XGMI and DeviceKind.CPU in ends):
        return PathKind.C2C
    if link.kind in NEAR_GPUS:
        return PathKind.NVL
    if DeviceKind.CPU in ends or link.kind is LinkKind.SHM:
        return PathKind.PHB
    return PathKind.PXB if ends == {DeviceKind.PCI} else PathKind.PIX


def p2p(paths: Paths, a: int, b: int, level: PathKind | None = None) -> RuleVerdict:
    """Whether a GPU reads and writes another's memory, both by local rank. `level`: NCCL_P2P_LEVEL, the farthest path
    on which NCCL does, by default `paths.p2p_level`."""
    machine, path = paths.machine, paths.gpus(a, b)
    one, other = machine.devices[machine.gpus[a]], machine.devices[machine.gpus[b]]
    between = f"{path.kind.name} between {one.name} and {other.name}"
    if path.kind is PathKind.LOC:
        return RuleVerdict(True, f"{one.name} is one GPU")
    if path.kind is PathKind.DIS:
        return RuleVerdict(False, f"no path between {one.name} and {other.name}: is a link missing in the file?")
    if one.vendor and other.vendor and one.vendor != other.vendor:
        return RuleVerdict(
            False, f"{one.name} is {one.vendor}'s and {other.name} {other.vendor}'s: data goes by the host"
        )
    if path.kind >= PathKind.PIX and (without := next((d for d in (one, other) if not over_pcie(d)), None)):
        return RuleVerdict(
            False,
            f"{without.name} ({without.model or 'its model'}) has no P2P over PCIe in its driver: data goes by the "
            "host's memory, and NCCL_P2P_LEVEL does not help",
        )
    level = paths.p2p_level if level is None else level
    if path.kind <= level:
        return RuleVerdict(True, f"{between} is within {level.name}, NCCL_P2P_LEVEL")
    remedy = f"NCCL_P2P_LEVEL={path.kind.name} allows it" if path.kind <= PathKind.SYS else "no level allows it"
    return RuleVerdict(False, f"{between} is farther than {level.name}, NCCL_P2P_LEVEL: {remedy}")


def gdr(
    paths: Paths, gpu: int, nic: int, fabric: Fabric | None = None, level: PathKind | None = None, sends: bool = True
) -> RuleVerdict:
    """Whether a NIC reads (`sends`) or writes a GPU's memory: the GPU by local rank, the NIC by its position among the
    machine's. `level`: NCCL_NET_GDR_LEVEL, by default P2C. For a send through another GPU, that GPU decides."""
    machine = paths.machine
    card, port = machine.devices[machine.gpus[gpu]], machine.devices[machine.nics[nic]]
    path = paths.between(machine.gpus[gpu], machine.nics[nic])
    if fabric is not None and not fabric.gdr:
        return RuleVerdict(
            False, f"{fabric.name} has the kernel copy: a fabric with RDMA and its NCCL plugin would do without"
        )
    if not card.gdr:
        remedy = "load nvidia-peermem, or have DMA-BUF" if over_pcie(card) else "a data centre's GPU has it"
        return RuleVerdict(False, f"{card.name} ({card.model or 'its model'}) has no GPUDirect RDMA: {remedy}")
    if not port.gdr:
        return RuleVerdict(
            False, f"{port.name} cannot register a GPU's memory: it takes an RDMA NIC, and nvidia-peermem or DMA-BUF"
        )
    if path.kind is PathKind.DIS:
        return RuleVerdict(False, f"no path between {card.name} and {port.name}: is a link missing in the file?")
    limit = PathKind.P2C if level is None else level
    between = f"{path.kind.name} between {card.name} and {port.name}"
    if path.kind > limit:
        remedy = f"NCCL_NET_GDR_LEVEL={path.kind.name} allows it" if path.kind <= PathKind.SYS else "no level allows it"
        return RuleVerdict(False, f"{between} is farther than {limit.name}, NCCL_NET_GDR_LEVEL: {remedy}")
    if sends and 0 < card.sm < AMPERE and not _near_others(paths, gpu):
        return RuleVerdict(
            False,
            f"{card.name} is sm{card.sm}, below sm{AMPERE}, and has no NVLink to others: NCCL keeps NICs from reading "
            "its memory; NCCL_NET_GDR_READ=1 allows it",
        )
    return RuleVerdict(True, f"{between} is within {limit.name}, NCCL_NET_GDR_LEVEL")


def over_pcie(device: Device) -> bool:
    """Whether a GPU's driver lets others reach its memory over PCIe, by its attribute and its model."""
    return device.attributes.get("p2p") != "0" and not _WITHOUT_P2P.search(device.model)


def _near_others(paths: Paths, gpu: int) -> bool:
    others = [g for g in range(len(paths.machine.gpus)) if g != gpu]
    return not others or any(paths.gpus(gpu, g).kind is PathKind.NVL for g in others)
