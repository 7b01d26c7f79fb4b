"""The single copies between two GPUs: each one's path, mover and bandwidth."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum
from math import inf

from ringtree.machines.link_figures import data_Bps, latency_s
from ringtree.machines.machine import DeviceKind, PathKind
from ringtree.machines.paths import Path, Paths
from ringtree.topology.fabrics import Fabric


class Mover(str, Enum):
    """The device that moves the bytes. WIRE: no processor, the network."""

    GPU = "gpu"
    CPU = "cpu"
    NIC = "nic"
    DISK = "disk"
    WIRE = "wire"


@dataclass(frozen=True, slots=True)
class Copy:
    """`lands`: it ends in a memory, not in a NIC on the way. A device of the other machine is `node1/...`."""

    what: str
    source: str
    target: str
    by: Mover
    bandwidth_Bps: float
    latency_s: float
    lands: bool = True

    def seconds(self, nbytes: float) -> float:
        """Seconds of the copy of `nbytes` alone."""
        return self.latency_s + nbytes / self.bandwidth_Bps


class CopySteps:
    """The copies of a machine, and of another like it at the far end. Devices by number; `leaves` and `enters` are the
    NICs of a transfer."""

    def __init__(self, paths: Paths) -> None:
        self.machine, self.paths = paths.machine, paths

    def copy(self, what: str, path: Path, by: Mover, *, lands: bool = True, far: bool = False) -> Copy:
        """A copy along a path; ValueError where there is none."""
        if not path.links:
            raise ValueError(f"{self.machine.name}: no path for {what}; expected its links in the file")
        links = [self.machine.links[k] for k in path.links]
        source, target = self._name(links[0].source, far), self._name(links[-1].target, far)
        return Copy(what, source, target, by, min(map(data_Bps, links)), sum(map(latency_s, links)), lands)

    def between_gpus(self, a: int, b: int) -> tuple[Copy, ...]:
        """Direct copies. Under NVB a GPU in the middle receives the data and forwards it."""
        path = self.paths.between(a, b)
        over = "NVLink" if path.kind <= PathKind.NVB else "C2C" if path.kind is PathKind.C2C else "PCIe"
        return tuple(self.copy(f"GPU to GPU over {over}", p, Mover.GPU) for p in self._at_gpus(path))

    def by_host(self, a: int, b: int) -> tuple[Copy, ...]:
        """One GPU writes the host's memory, the other reads it."""
        cpu = self.cpu(a)
        return (self._stage(a), self._unstage(cpu, b))

    def by_kernel(self, a: int, b: int, leaves: int, enters: int, fabric: Fabric) -> tuple[Copy, ...]:
        """Sockets: the kernel copies at both ends, and the GPUs do too."""
        here, there = self.cpu(a), self.cpu(b)
        return (
            self._stage(a),
            self._kernel("user to kernel", here, fabric),
            self.copy("kernel to NIC", self.paths.between(here, leaves), Mover.NIC, lands=False),
            self._wire(leaves, enters, fabric),
            self.copy("NIC to kernel", self.paths.between(enters, there), Mover.NIC, far=True),
            self._kernel("kernel to user", there, fabric, far=True),
            self._unstage(there, b, far=True),
        )

    def by_rdma(self, a: int, b: int, leaves: int, enters: int, fabric: Fabric) -> tuple[Copy, ...]:
        """The NICs read and write the hosts' memories, the GPUs copy there and back."""
        here, there = self.cpu(a), self.cpu(b)
        return (
            self._stage(a),
            self.copy("host to NIC", self.paths.between(here, leaves), Mover.NIC, lands=False),
            self._wire(leaves, enters, fabric),
            self.copy("NIC to host", self.paths.between(enters, there), Mover.NIC, far=True),
            self._unstage(there, b, far=True),
        )

    def by_gdr(self, path: Path, b: int, enters: int, fabric: Fabric) -> tuple[Copy, ...]:
        """The NICs read and write the GPUs' memories. `path` goes from the GPU to its NIC, by another GPU if that is
        PXN. Without RDMA the kernel still handles the headers, and the GPU puts the arriving pages in order."""
        *relays, last = self._at_gpus(path)
        leaves = self.machine.links[path.links[-1]].target
        steps = [self.copy("GPU to GPU over NVLink", p, Mover.GPU) for p in relays]
        steps.append(self.copy("device to NIC", last, Mover.NIC, lands=False))
        wire = self._wire(leaves, enters, fabric)
        arrives = self.copy("NIC to device", self.paths.between(enters, b), Mover.NIC, far=True)
        if fabric.rdma:
            return (*steps, wire, arrives)
        name, memory_Bps = self._name(b, True), float(self.machine.devices[b].attributes.get("memory_Bps", inf))
        pages = Copy("pages to buffer", name, name, Mover.GPU, memory_Bps / 2, 0.0)
        sent, got = self._headers(self.cpu(leaves), fabric), self._headers(self.cpu(enters), fabric, far=True)
        return (*steps, sent, wire, got, arrives, pages)

    def from_disk(self, disk: int, gpu: int) -> tuple[Copy, ...]:
        """The copies from a disk to a GPU by the memory of the disk's own host."""
        cpu = self.cpu(disk)
        return (self.copy("disk to host", self.paths.between(disk, cpu), Mover.DISK), self._unstage(cpu, gpu))

    def cpu(self, device: int) -> int:
        """The CPU whose memory a device's data is put into; ValueError where it reaches none."""
        cpu = self.paths.cpu(device)
        if cpu is None:
            name = self.machine.devices[device].name
            raise ValueError(f"{self.machine.name}: {name} reaches no CPU; expected one, for its host's memory")
        return cpu

    def _stage(self, gpu: int) -> Copy:
        return self.copy("device to host", self.paths.between(gpu, self.cpu(gpu)), Mover.GPU)

    def _unstage(self, cpu: int, gpu: int, *, far: bool = False) -> Copy:
        path = self.paths.between(cpu, gpu)
        what = "host to device over the CPUs' link" if path.kind is PathKind.SYS else "host to device"
        return self.copy(what, path, Mover.GPU, far=far)

    def _kernel(self, what: str, cpu: int, fabric: Fabric, *, far: bool = False) -> Copy:
        name = self._name(cpu, far)
        return Copy(what, name, name, Mover.CPU, fabric.kernel_Bps, (fabric.latency_s - fabric.hop_s) / 2)

    def _headers(self, cpu: int, fabric: Fabric, *, far: bool = False) -> Copy:
        return replace(self._kernel("headers by the kernel", cpu, fabric, far=far), lands=False)

    def _wire(self, leaves: int, enters: int, fabric: Fabric) -> Copy:
        """The wire's copy. With a kernel in between, the software's part of the latency is in the kernel's copies."""
        rate_Bps = min(self.machine.devices[n].rate_Bps for n in (leaves, enters))
        if not rate_Bps > 0:
            name = self.machine.devices[leaves].name
            raise ValueError(f"{self.machine.name}: {name} has no rate; expected one, as --nics 8x400Gb")
        latency = fabric.latency_s if fabric.rdma else fabric.hop_s
        source, target = self._name(leaves, False), self._name(enters, True)
        return Copy("wire", source, target, Mover.WIRE, rate_Bps * fabric.payload, latency, lands=False)

    def _at_gpus(self, path: Path) -> Iterable[Path]:
        """The path in parts, each from one memory to the next."""
        first = 0
        for n, k in enumerate(path.links):
            if self.machine.devices[self.machine.links[k].target].kind is DeviceKind.GPU or n + 1 == len(path.links):
                yield replace(path, links=path.links[first : n + 1])
                first = n + 1

    def _name(self, device: int, far: bool) -> str:
        return f"node1/{self.machine.devices[device].name}" if far else self.machine.devices[device].name
