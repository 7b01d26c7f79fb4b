"""The routes of data from one GPU or a disk to a GPU, and the copies on each: their number, movers and times."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ringtree.machines.contraction import contract
from ringtree.machines.copy_steps import Copy, CopySteps, Mover
from ringtree.machines.machine import DeviceKind, Machine, PathKind
from ringtree.machines.nics import usual_fabric
from ringtree.machines.paths import Paths, RuleVerdict, gdr, p2p
from ringtree.topology.fabrics import FABRICS, Fabric

__all__ = ["Copy", "Mover", "CopyRoute", "copies", "from_storage", "in_machine", "side_by_side", "to_machine"]


@dataclass(frozen=True, slots=True)
class CopyRoute:
    """One route: its copies, in order, and whether NCCL takes it."""

    way: str
    verdict: RuleVerdict
    copies: tuple[Copy, ...]

    @property
    def stops(self) -> int:
        """The number of memories between the first and the last: 0 where the data goes directly."""
        return sum(c.lands for c in self.copies[:-1])

    @property
    def bandwidth_Bps(self) -> float:
        """Bandwidth of long messages: the slowest copy's."""
        return min(c.bandwidth_Bps for c in self.copies)

    def pipelined_s(self, nbytes: float) -> float:
        """Seconds in pieces so small that all copies overlap: all latencies, and the slowest copy."""
        return sum(c.latency_s for c in self.copies) + nbytes / self.bandwidth_Bps

    def in_turn_s(self, nbytes: float) -> float:
        """Seconds where each copy of the whole message follows the previous copy."""
        return sum(c.seconds(nbytes) for c in self.copies)


def copies(machine: Machine, a: int, b: int, fabric: Fabric | None = None) -> tuple[Copy, ...]:
    """The copies from a GPU to another, both by local rank: in the machine, or over a fabric to one in another such
    machine. ValueError where there is no route."""
    routes = in_machine(machine, a, b) if fabric is None else to_machine(machine, a, b, fabric)
    taken = next((r for r in routes if r.verdict.applies), None)
    return (taken or to_machine(machine, a, b, FABRICS["tcp"])[0]).copies


def side_by_side(machine: Machine, a: int = 0, b: int = 1, fabric: Fabric | None = None) -> tuple[CopyRoute, ...]:
    """Every route from GPU a, by local rank: to GPU b by P2P and by the host; to GPU b of another such machine by TCP
    and by RDMA (the fabric's, by default the one that the NICs are made for); from the first disk. Routes that lack a
    device are left out."""
    found: list[CopyRoute] = []
    if not machine.gpus:
        return ()
    if a != b and max(a, b) < len(machine.gpus):
        found += in_machine(machine, a, b)
    if machine.nics:
        own = fabric or FABRICS[usual_fabric(machine) or "infiniband"]
        for each in dict.fromkeys((FABRICS["tcp"], own, own if own.rdma else FABRICS["roce"])):
            other = RuleVerdict(False, f"for comparison: the fabric is {own.name}")
            routes = to_machine(machine, a, a, each)
            found += routes if each is own else (replace(r, verdict=other) for r in routes)
    if disks := machine.of_kind(DeviceKind.STORAGE):
        found += from_storage(machine, disks[0], a)
    return tuple(found)


def in_machine(machine: Machine, a: int, b: int) -> tuple[CopyRoute, ...]:
    """The routes by P2P, and by the host's memory."""
    steps = CopySteps(Paths(machine))
    direct, one, other = p2p(steps.paths, a, b), machine.gpus[a], machine.gpus[b]
    found = []
    if steps.paths.between(one, other).kind is not PathKind.DIS:
        found.append(CopyRoute("P2P", direct, steps.between_gpus(one, other)))
    cpu = steps.paths.cpu(one)
    if found and (cpu is None or steps.paths.between(cpu, other).kind is PathKind.DIS):
        return tuple(found)  # as between the trays of a rack
    return (*found, CopyRoute("by the host's memory", _instead(direct), steps.by_host(one, other)))


def to_machine(machine: Machine, a: int, b: int, fabric: Fabric) -> tuple[CopyRoute, ...]:
    """The routes of a copy from GPU a to GPU b of another such machine: by the kernel where the fabric neither has RDMA
    nor reaches a GPU, else into its memory, and with RDMA also by buffers in the hosts' memories."""
    one = contract(machine)
    steps, nics = CopySteps(one.paths), one.machine.nics
    if -1 in (one.home[a], one.home[b]):
        raise ValueError(f"{machine.name}: GPU {a} or {b} reaches no NIC; expected a path to one")
    leaves, enters = one.home[a], one.home[b]
    path = steps.paths.to_nic(a, enters, fabric)
    if path.kind is PathKind.PXN:
        leaves, sends = enters, RuleVerdict(True, "PXN: another GPU is near the NIC and an NVLink away")
    else:
        path, sends = steps.paths.between(a, nics[leaves]), gdr(steps.paths, a, leaves, fabric)
    receives = gdr(steps.paths, b, enters, fabric, sends=False)
    direct = receives if sends.applies else sends
    ports = nics[leaves], nics[enters]
    if not fabric.gdr and not fabric.rdma:
        verdict = RuleVerdict(True, f"{fabric.name}: sockets, which are the kernel's")
        return (CopyRoute(fabric.name, verdict, steps.by_kernel(a, b, *ports, fabric)),)
    directly = steps.by_gdr(path, b, ports[1], fabric)
    if not fabric.rdma:
        return (CopyRoute(fabric.name, direct, directly),)
    return (
        CopyRoute(f"{fabric.name}, GPUDirect RDMA", direct, directly),
        CopyRoute(f"{fabric.name} by the hosts' memories", _instead(direct), steps.by_rdma(a, b, *ports, fabric)),
    )


def from_storage(machine: Machine, disk: int, gpu: int) -> tuple[CopyRoute, ...]:
    """The routes of a copy from a disk, by device number, to a GPU, by local rank: GPUDirect Storage, and by the host's
    memory."""
    steps, target = CopySteps(Paths(machine)), machine.gpus[gpu]
    path = steps.paths.between(disk, target)
    direct = _gds(machine, disk, target, path.kind)
    staged = CopyRoute("disk by the host's memory", _instead(direct), steps.from_disk(disk, target))
    if path.kind is PathKind.DIS:
        return (staged,)
    return CopyRoute("GPUDirect Storage", direct, (steps.copy("disk to device", path, Mover.DISK),)), staged


def _instead(direct: RuleVerdict) -> RuleVerdict:
    return RuleVerdict(not direct.applies, f"{'not taken' if direct.applies else 'taken instead'}: {direct.why}")


def _gds(machine: Machine, disk: int, gpu: int, kind: PathKind) -> RuleVerdict:
    """The rule of NVIDIA's GPUDirect Storage documentation: NVMe, a GPU with GPUDirect, and no path between two
    CPUs."""
    drive, card = machine.devices[disk], machine.devices[gpu]
    if "sata" in f"{drive.name} {drive.model}".lower():
        return RuleVerdict(False, f"{drive.name} is on SATA: GPUDirect Storage takes NVMe")
    if not card.gdr:
        return RuleVerdict(False, f"{card.name} has no GPUDirect: take a data centre's GPU")
    if kind > PathKind.PHB:
        return RuleVerdict(False, f"{kind.name} between {drive.name} and {card.name}: take a disk of the GPU's own CPU")
    return RuleVerdict(True, f"{kind.name} between {drive.name} and {card.name} is within PHB")
