"""A machine: its devices and the links between them, from a file, the catalogue or this host's sysfs.

Bandwidths are nominal: the maker's figure for the wire, each way, encoding taken off. `price` computes the share that
software gets. Units: seconds, bytes, bytes a second.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, IntEnum
from functools import cached_property
from types import MappingProxyType


class DeviceKind(str, Enum):
    """GPU is any accelerator that can be a rank, CPU a NUMA node, PCI a switch or bridge, SWITCH one of a network."""

    GPU = "gpu"
    CPU = "cpu"
    PCI = "pci"
    NVSWITCH = "nvswitch"
    NIC = "nic"
    STORAGE = "storage"
    SWITCH = "switch"


class LinkKind(str, Enum):
    """The kind of a link. CPU joins two NUMA nodes; ETHERNET and INFINIBAND leave a NIC."""

    SHM = "shm"
    PCIE = "pcie"
    NVLINK = "nvlink"
    C2C = "c2c"
    XGMI = "xgmi"
    CPU = "cpu"
    ETHERNET = "ethernet"
    INFINIBAND = "infiniband"


_BEYOND_A_HOST = frozenset({LinkKind.NVLINK, LinkKind.XGMI, LinkKind.ETHERNET, LinkKind.INFINIBAND})
"""Kinds of links that may leave a host: a rack's NVSwitches join the GPUs of several."""


class PathKind(IntEnum):
    """The kind of path between two devices, the nearest first, by NCCL's names and numbers (graph.h).

    NVL NVLink (or xGMI) alone, NVB NVLink through one GPU, C2C the CPU's own NVLink, PIX at most one PCIe switch,
    PXB several, P2C GPU - C2C - CPU - PCIe - NIC, PXN a NIC through another GPU, PHB through a CPU, SYS between two
    CPUs, NET over the network, DIS not at all.
    """

    LOC = 0
    NVL = 1
    NVB = 2
    C2C = 3
    PIX = 4
    PXB = 5
    P2C = 6
    PXN = 7
    PHB = 8
    SYS = 9
    NET = 10
    DIS = 11


@dataclass(frozen=True, slots=True)
class Device:
    """`name` is unique in its machine. `sm` is NVIDIA's compute capability times 10 (0: not NVIDIA's, or unknown);
    `numa` the NUMA node it is near (-1: unknown); `gdr` whether a GPU or NIC can do GPUDirect RDMA; `rate_Bps` and
    `latency_s` are a NIC's ports', together. `attributes` keep a file's further attributes."""

    name: str
    kind: DeviceKind
    vendor: str = ""
    model: str = ""
    busid: str = ""
    numa: int = -1
    sm: int = 0
    gdr: bool = True
    rate_Bps: float = 0.0
    latency_s: float = 0.0
    attributes: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class Link:
    """A link in one direction, between devices by number. `generation` is PCIe's or NVLink's (0: unknown), `width` the
    number of PCIe lanes, or of NVLink, xGMI or C2C links taken together."""

    source: int
    target: int
    kind: LinkKind
    bandwidth_Bps: float
    latency_s: float = 0.0
    generation: int = 0
    width: int = 1


class NoteKind(str, Enum):
    """SOURCE: the origin of a figure. ASSUMED: an assumption for a missing fact, and how to give the fact. TRAP: a fact
    that will mislead NCCL. UNKNOWN: a device or a fact that no table knows, by name: nothing is taken in its place."""

    SOURCE = "source"
    ASSUMED = "assumed"
    TRAP = "trap"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Note:
    """`about` is a device, a link or a figure, in words."""

    kind: NoteKind
    about: str
    text: str


@dataclass(frozen=True, eq=False)
class Machine:
    """A machine: devices and the directed links between them. The k-th GPU is local rank k."""

    name: str
    devices: tuple[Device, ...]
    links: tuple[Link, ...]
    notes: tuple[Note, ...] = ()

    def __post_init__(self) -> None:
        if len(self._numbers) < len(self.devices):
            twice = next(d.name for n, d in enumerate(self.devices) if self._numbers[d.name] != n)
            raise ValueError(f"{self.name}: two devices are named {twice!r}; expected names that differ")
        for n, link in enumerate(self.links):
            where = f"{self.name}: link {n}"
            if not (0 <= link.source < len(self.devices) and 0 <= link.target < len(self.devices)):
                raise ValueError(
                    f"{where} goes from {link.source} to {link.target}; expected devices of 0..{len(self.devices) - 1}"
                )
            if link.source == link.target:
                raise ValueError(f"{where} goes from {self.devices[link.source].name} to itself; expected two devices")
            if not (link.bandwidth_Bps > 0 and link.latency_s >= 0):
                raise ValueError(
                    f"{where} has {link.bandwidth_Bps} B/s and {link.latency_s} s; expected a bandwidth above 0 and a "
                    "latency of at least 0"
                )

    def of_kind(self, kind: DeviceKind) -> tuple[int, ...]:
        """The numbers of the devices of a kind, in order."""
        return tuple(n for n, d in enumerate(self.devices) if d.kind is kind)

    @cached_property
    def gpus(self) -> tuple[int, ...]:
        """Device numbers; the position in this tuple is the local rank."""
        return self.of_kind(DeviceKind.GPU)

    @cached_property
    def hosts_of_gpus(self) -> int:
        """Number of hosts that have the GPUs: one, but for racks and pods."""
        return len({self._hosts[gpu] for gpu in self.gpus})

    @cached_property
    def nics(self) -> tuple[int, ...]:
        """Device numbers of the network cards."""
        return self.of_kind(DeviceKind.NIC)

    def device(self, name: str) -> int:
        """The number of the device of that name. ValueError: if there is none."""
        if name not in self._numbers:
            some = ", ".join(d.name for d in self.devices[:4]) + (", …" if len(self.devices) > 4 else "")
            raise ValueError(f"{self.name} has no device {name!r}: expected one of {some}")
        return self._numbers[name]

    def leaving(self, device: int) -> tuple[int, ...]:
        """The numbers of the links that leave a device, as they are listed."""
        return self._leaving[device]

    def part(self, gpus: Iterable[int]) -> Machine:
        """The machine with those GPUs alone, by local rank, in the order given. The other devices stay, but for those
        of a host (a tray of a rack) none of whose GPUs stays: no process runs there. ValueError: if a GPU is given
        twice, or none."""
        wanted = [self._gpu(g) for g in gpus]
        if len(set(wanted)) < len(wanted) or not wanted:
            raise ValueError(f"{self.name}: expected GPUs that differ, at least one")
        left = {self._hosts[g] for g in self.gpus} - {self._hosts[g] for g in wanted}
        others = [n for n, d in enumerate(self.devices) if d.kind is not DeviceKind.GPU and self._hosts[n] not in left]
        kept = sorted(others + wanted)
        if wanted != sorted(wanted):
            kept = wanted + others
        return self.of_devices(kept)

    def of_devices(self, kept: Sequence[int]) -> Machine:
        """The machine with those devices alone, by number, in the order given, and the links between them."""
        links = renumbered(self.links, {old: new for new, old in enumerate(kept)})
        return replace(self, devices=tuple(self.devices[n] for n in kept), links=links)

    def _gpu(self, local_rank: int) -> int:
        if not 0 <= local_rank < len(self.gpus):
            raise ValueError(f"{self.name} has no GPU {local_rank}: expected 0..{len(self.gpus) - 1}")
        return self.gpus[local_rank]

    @cached_property
    def _hosts(self) -> tuple[int, ...]:
        """The host of every device, as the least number of the devices that a host's own links join."""
        host = list(range(len(self.devices)))

        def first(n: int) -> int:
            while host[n] != n:
                host[n] = host[host[n]]
                n = host[n]
            return n

        for link in self.links:
            if link.kind not in _BEYOND_A_HOST:
                a, b = first(link.source), first(link.target)
                host[max(a, b)] = min(a, b)
        return tuple(map(first, range(len(self.devices))))

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {d.name: n for n, d in enumerate(self.devices)}

    @cached_property
    def _leaving(self) -> tuple[tuple[int, ...], ...]:
        out: list[list[int]] = [[] for _ in self.devices]
        for n, link in enumerate(self.links):
            out[link.source].append(n)
        return tuple(map(tuple, out))


def both_ways(link: Link) -> tuple[Link, Link]:
    """A link and the reverse one."""
    return link, replace(link, source=link.target, target=link.source)


def renumbered(links: Iterable[Link], number: Mapping[int, int]) -> tuple[Link, ...]:
    """The links with their ends renumbered by `number`, without those that lack an end there."""
    return tuple(
        replace(k, source=number[k.source], target=number[k.target])
        for k in links
        if k.source in number and k.target in number
    )
