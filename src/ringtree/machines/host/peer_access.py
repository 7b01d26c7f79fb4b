"""Access of NVIDIA's GPUs to each other's memory, pair by pair: the driver's answer, and what hinders it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations

from ringtree.machines.detect.nvml_state import ALLOWED, GpuState
from ringtree.machines.detect.pci import PciDevice, pci_devices
from ringtree.machines.host.isolation import Isolation, isolation, redirects, root_complex, translated
from ringtree.machines.machine import Device, DeviceKind, Machine, Note, NoteKind, PathKind
from ringtree.machines.paths import Paths, over_pcie
from ringtree.machines.sysfs import Sysfs

REFUSED = {
    "chipset": "the driver does not support it on this chipset",
    "gpu": "the driver does not support it on such GPUs",
    "root complexes": "the driver does not support it between these root complexes",
    "registry key": "a setting of the driver's turned it off",
    "unsupported": "the driver does not support it",
    "unknown": "the driver does not answer",
}
"""The driver's answers in words."""
ACS_REMEDY = "turn ACS off in the firmware's setup, or: setpci -s {} ECAP_ACS+6.w=0 (root; until the next start)"
IOMMU_REMEDY = "iommu=pt on the kernel's command line"
NVLINK_KINDS = (PathKind.NVL, PathKind.NVB)


@dataclass(frozen=True, slots=True)
class PeerPair:
    """Two GPUs by name. `allowed`: the driver's answer, None where it is unknown. `why` is that answer in words;
    `hindrances`: what the kernel's files show that makes access impossible or slow; `remedies`: for each what helps."""

    source: str
    target: str
    allowed: bool | None
    why: str
    hindrances: tuple[str, ...] = ()
    remedies: tuple[str, ...] = ()


def peer_pairs(machine: Machine, sysfs: Sysfs, states: Mapping[str, GpuState]) -> tuple[PeerPair, ...]:
    """Every pair of NVIDIA's GPUs, the first of each before the second. `states`: NVML's, by the GPUs' names."""
    gpus = [machine.devices[n] for n in machine.gpus if machine.devices[n].vendor == "nvidia"]
    paths, pci, around = Paths(machine), pci_devices(sysfs), isolation(sysfs)
    return tuple(_pair(machine, paths, sysfs, pci, around, states, a, b) for a, b in combinations(gpus, 2))


def _pair(
    machine: Machine,
    paths: Paths,
    sysfs: Sysfs,
    pci: Mapping[str, PciDevice],
    around: Isolation,
    states: Mapping[str, GpuState],
    a: Device,
    b: Device,
) -> PeerPair:
    answer = states[a.name].peers.get(b.busid, "") if a.name in states else ""
    allowed = None if answer in ("", "unknown") else answer == ALLOWED
    by_nvlink = paths.between(machine.device(a.name), machine.device(b.name)).kind in NVLINK_KINDS
    found = [*_always(states, a, b), *([] if by_nvlink else _over_pcie(sysfs, pci, around, allowed, a, b))]
    if allowed is None:
        why = "the driver was not asked" if not answer else REFUSED["unknown"]
    else:
        why = "the driver allows it" if allowed else REFUSED[answer]
    hindrances = tuple(dict.fromkeys(words for words, _ in found))
    return PeerPair(
        a.name, b.name, allowed, why, hindrances, tuple(dict.fromkeys(r for _, r in found if r and allowed is not None))
    )


def _always(states: Mapping[str, GpuState], a: Device, b: Device) -> Iterator[tuple[str, str]]:
    for gpu in (a, b):
        if gpu.name in states and states[gpu.name].mig:
            yield f"{gpu.name} is divided (MIG), and its parts reach no other", f"nvidia-smi -i {gpu.busid} -mig 0"


def _over_pcie(
    sysfs: Sysfs, pci: Mapping[str, PciDevice], around: Isolation, allowed: bool | None, a: Device, b: Device
) -> Iterator[tuple[str, str]]:
    """Hindrances of access over PCIe, each with its remedy."""
    if without := next((gpu for gpu in (a, b) if not over_pcie(gpu)), None):
        yield f"{without.model or without.name} is a consumer card, whose driver has no access over PCIe", ""
    roots = [root_complex(sysfs, gpu.busid) for gpu in (a, b)]
    if all(roots) and roots[0] != roots[1]:
        where = f", of NUMA nodes {a.numa} and {b.numa}" if -1 not in (a.numa, b.numa) and a.numa != b.numa else ""
        yield f"they are below different root complexes ({roots[0]} and {roots[1]}{where})", ""
    if around.virtual_machine:
        yield "this is a virtual machine: its host decides what PCIe devices exchange", ""
    elif allowed is not False and any(translated(sysfs, gpu.busid) for gpu in (a, b)):
        yield "an IOMMU translates their addresses, which makes access slow or wrong", IOMMU_REMEDY
    if a.busid in pci and b.busid in pci and allowed is not False:
        between = set(pci[a.busid].above) ^ set(pci[b.busid].above)
        if on := sorted(bridge for bridge in between if redirects(sysfs, bridge)):
            few = ", ".join(on[:4]) + (f" and {len(on) - 4} more" if len(on) > 4 else "")
            yield f"ACS of {few} sends their data up to the root complex", ACS_REMEDY.format(on[0])


def grouped(pairs: Iterable[PeerPair]) -> dict[str, PeerPair]:
    """The first of all pairs of the same words, by the names of all: `gpu0-gpu1, gpu0-gpu2 and 4 more`."""
    alike: dict[tuple[object, ...], list[PeerPair]] = {}
    for pair in pairs:
        alike.setdefault((pair.allowed, pair.why, pair.hindrances), []).append(pair)
    found = {}
    for group in alike.values():
        names = [f"{pair.source}-{pair.target}" for pair in group]
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        found[", ".join(names[:3]) + more] = group[0]
    return found


def explained(pair: PeerPair) -> str:
    """The pair's answer and hindrances in a line."""
    return "; ".join((pair.why, *pair.hindrances))


def gpus_by_name(machine: Machine, states: tuple[GpuState, ...]) -> dict[str, GpuState]:
    """NVML's states by the machine's names."""
    names = {d.busid: d.name for d in machine.devices if d.kind is DeviceKind.GPU}
    return {names[state.busid]: state for state in states if state.busid in names}


def peer_notes(pairs: Iterable[PeerPair]) -> Iterator[Note]:
    """A note for pairs without access, or with hindrances: a trap by the driver's answer, else an assumption."""
    for names, pair in grouped(pairs).items():
        if pair.allowed is False or pair.hindrances:
            verdict = {True: "access to each other's memory", False: "no access to each other's memory", None: "access"}
            text = f"{verdict[pair.allowed]}: {explained(pair)}" + "".join(f"; {remedy}" for remedy in pair.remedies)
            yield Note(NoteKind.ASSUMED if pair.allowed is None else NoteKind.TRAP, names, text)
