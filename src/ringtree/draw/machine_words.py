"""Names of devices and links in pictures of a machine."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from ringtree.ir import units
from ringtree.machines.machine import Device, DeviceKind, Link, LinkKind, Machine, NoteKind

KINDS = {
    DeviceKind.GPU: "GPU",
    DeviceKind.CPU: "NUMA node",
    DeviceKind.PCI: "PCIe switch",
    DeviceKind.NVSWITCH: "NVSwitch",
    DeviceKind.NIC: "NIC",
    DeviceKind.STORAGE: "storage device",
    DeviceKind.SWITCH: "network switch",
}
LINKS = {
    LinkKind.SHM: "shared memory",
    LinkKind.PCIE: "PCIe",
    LinkKind.NVLINK: "NVLink",
    LinkKind.C2C: "C2C",
    LinkKind.XGMI: "xGMI",
    LinkKind.CPU: "CPU link",
    LinkKind.ETHERNET: "Ethernet",
    LinkKind.INFINIBAND: "InfiniBand",
}
VENDORS = {
    "nvidia": "NVIDIA",
    "amd": "AMD",
    "authenticamd": "AMD",
    "genuineintel": "Intel",
    "mellanox": "Mellanox",
    "hygon": "Hygon",
    "hygongenuine": "Hygon",
    "huawei": "Huawei",
    "hisilicon": "HiSilicon",
    "amazon": "Amazon",
    "google": "Google",
    "microsoft": "Microsoft",
    "hpe": "HPE",
    "generic": "",
}
"""As makers write themselves, by how files and CPUID do."""


def kinds(machine: Machine) -> str:
    """8 GPUs, 2 NUMA nodes, 4 PCIe switches, …: what it has of each kind."""
    there = [(len(machine.of_kind(kind)), word) for kind, word in KINDS.items()]
    plural = {"PCIe switch": "PCIe switches", "NVSwitch": "NVSwitches", "network switch": "network switches"}
    words = [f"{n} {plural.get(word, f'{word}s') if n > 1 else word}" for n, word in there if n]
    return ", ".join(words) or "no devices"


def link(k: Link) -> str:
    """PCIe 5 x16, 18 × NVLink 4, CPU link."""
    generation = f" {k.generation}" if k.generation else ""
    if k.kind is LinkKind.PCIE:
        return f"PCIe{generation} x{k.width}" if k.generation else "PCIe"
    many = f"{k.width} × " if k.width > 1 else ""
    return f"{many}{LINKS[k.kind]}{generation}"


class JoinedLinks(NamedTuple):
    """The links of the GPU that has most to others: in words, and their bandwidth together."""

    links: str
    bandwidth_Bps: float

    def __str__(self) -> str:
        return f"{self.links}, {units.bandwidth(self.bandwidth_Bps)} a GPU"


def joined(machine: Machine) -> JoinedLinks | None:
    """The links that join its GPUs, as (NVSwitch, 18 × NVLink 4; 450 GB/s); their PCIe slots where there are no other
    links. None for fewer than two GPUs, or where nothing is known."""
    if len(machine.gpus) < 2:
        return None
    leaving = {g: [machine.links[n] for n in machine.leaving(g)] for g in machine.gpus}
    for kind in (LinkKind.NVLINK, LinkKind.XGMI):
        total, links = max(
            ((sum(k.bandwidth_Bps for k in of), of) for of in (_of(kind, each) for each in leaving.values())),
            key=lambda found: found[0],
        )
        if links:
            switched = any(machine.devices[k.target].kind is DeviceKind.NVSWITCH for k in links)
            together = replace(links[0], width=sum(k.width for k in links))
            return JoinedLinks(f"{'NVSwitch, ' * switched}{link(together)}", total)
    slots = _of(LinkKind.PCIE, next(iter(leaving.values())))
    return JoinedLinks(link(slots[0]), slots[0].bandwidth_Bps) if slots else None


def _of(kind: LinkKind, links: Iterable[Link]) -> list[Link]:
    return [k for k in links if k.kind is kind]


def about(device: Device) -> str:
    """A device's vendor, model and rate in one line, as far as known; empty where none is."""
    vendor = VENDORS.get(device.vendor.lower(), device.vendor)
    model = device.model if vendor.lower() in device.model.lower() else f"{vendor} {device.model}"
    rate = units.line_rate(device.rate_Bps) if device.rate_Bps else ""
    return ", ".join(filter(None, [model.strip(), rate]))


def further(device: Device) -> Iterator[str]:
    """Facts that a file or sysfs reports of one device beyond the catalogue."""
    if "cpus" in device.attributes:
        yield f"{device.attributes['cpus']} CPUs"
    if device.attributes.get("memory_bytes", "").isdecimal():
        yield units.size(int(device.attributes["memory_bytes"]))
    yield from filter(None, (device.attributes.get("caches", ""), device.busid if device.busid != device.name else ""))


def names(machine: Machine, devices: Sequence[int], most: int = 6) -> str:
    """gpu0, gpu2–5; of what has no numbers at most `most`, and how many there are."""
    words = list(_runs(machine.devices[n].name for n in devices))
    if len(words) > most:
        return f"{', '.join(words[: most - 2])}, … {words[-1]} ({len(devices)})"
    return ", ".join(words)


def _runs(called: Iterable[str]) -> Iterable[str]:
    """Names that count on from one to the next, as first–last."""
    runs: list[tuple[str, int, int]] = []
    for name in called:
        stem, digits = split(name)
        number = int(digits) if digits else -1
        if runs and digits and runs[-1][0] == stem and runs[-1][2] + 1 == number:
            runs[-1] = (stem, runs[-1][1], number)
        else:
            runs.append((stem, number, number))
    for stem, first, last in runs:
        if last - first > 1:
            yield f"{stem}{first}–{last}"
        else:
            yield from (stem if n < 0 else f"{stem}{n}" for n in range(first, last + 1))


def split(name: str) -> tuple[str, str]:
    """(gpu, 12) of gpu12. A number that does not read back (007), or is part of an address, is none."""
    found = re.fullmatch(r"(.*?[^\d.:])(0|[1-9]\d{0,8})", name, re.ASCII)
    return (found[1], found[2]) if found else (name, "")


def notes(machine: Machine, kind: NoteKind) -> Iterator[str]:
    """The machine's notes of a kind, as `gpu0, gpu1: text`; equal notes of several things once."""
    alike: dict[str, list[str]] = {}
    for note in machine.notes:
        if note.kind is kind:
            alike.setdefault(note.text, []).append(note.about)
    for text, about in alike.items():
        distinct = list(dict.fromkeys(filter(None, about)))
        few = distinct if len(distinct) <= 4 else [*distinct[:2], f"{distinct[2]} and {len(distinct) - 3} more"]
        yield f"{', '.join(few)}: {text}"


def caveats(machine: Machine) -> Iterator[str]:
    """The notes that a prediction is to be read with: `not known: gpu0: text`, then `trap: nic0: text`."""
    for kind, word in ((NoteKind.UNKNOWN, "not known"), (NoteKind.TRAP, "trap")):
        yield from (f"{word}: {text}" for text in notes(machine, kind))
