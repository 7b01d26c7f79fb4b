"""Other network cards in a machine: as many as one likes, near the GPUs in turn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from types import MappingProxyType

from ringtree.machines.clusters import Cluster
from ringtree.machines.machine import Device, DeviceKind, Link, LinkKind, Machine, Note, NoteKind, both_ways, renumbered
from ringtree.machines.parts.nics import NICS
from ringtree.topology.fabrics import FABRICS

FASTEST_BPS = 1e14
"""A rate beyond it is a typing error."""
KNOWN_BPS = max(nic.rate_Bps for nic in NICS.values())
"""The rate of the quickest NIC in the tables."""
_OF_A_KIND = ("class", "vendor", "device", "subsystem_vendor", "subsystem_device", "fabric", "pxn")
"""Attributes that NICs of a kind share."""
UNKNOWN_SLOT = Link(0, 0, LinkKind.PCIE, 1.0)
"""A slot of which nothing is known: it is taken to be as quick as its NIC."""


def with_nics(machine: Machine, count: int, rate_Bps: float) -> Machine:
    """The machine with `count` NICs of that rate instead of its own: on the slots of its own where it has as many,
    else each beside a GPU's PCIe link, the GPUs in turn. A slot that is slower than the rate is taken to be as
    quick, and a note records it: a request for eight NICs of 400 Gb/s means to use them. A rate
    that no NIC of the tables has is noted, too."""
    if not 1 <= count <= 1024 or not 0 < rate_Bps <= FASTEST_BPS:
        most = f"{FASTEST_BPS / 1e9:,.0f} GB/s"
        raise ValueError(f"{count} NICs of {rate_Bps / 1e9:g} GB/s: expected 1 to 1024, and a rate of at most {most}")
    old = machine.nics
    uplinks = [_slot(machine, n) for n in old] if len(old) == count else _near_gpus(machine, count)
    like = machine.devices[old[0]] if old else Device("nic", DeviceKind.NIC)
    kept = [n for n in range(len(machine.devices)) if n not in old]
    number = {before: after for after, before in enumerate(kept)}
    devices = [machine.devices[n] for n in kept]
    links = list(renumbered(machine.links, number))
    notes = list(machine.notes)
    taken = {d.name for d in devices}
    for n in range(count):
        at, slot = uplinks[n]
        own = machine.devices[old[n]] if len(old) == count else _another(like, _free(f"nic{n}", taken))
        taken.add(own.name)
        devices.append(replace(own, rate_Bps=rate_Bps, numa=machine.devices[at].numa))
        if rate_Bps > KNOWN_BPS:
            text = f"{8 * rate_Bps / 1e9:,g} Gb/s is more than any NIC known here has, {8 * KNOWN_BPS / 1e9:,g} Gb/s"
            notes.append(Note(NoteKind.UNKNOWN, own.name, text))
        if slot.bandwidth_Bps < rate_Bps:
            slot = replace(slot, bandwidth_Bps=rate_Bps, generation=0)
            text = f"its slot is taken to carry {rate_Bps / 1e9:g} GB/s, more than the machine's own"
            notes.append(Note(NoteKind.ASSUMED, own.name, text))
        links += both_ways(replace(slot, source=len(devices) - 1, target=number[at]))
    return Machine(machine.name, tuple(devices), tuple(links), tuple(notes))


def _slot(machine: Machine, device: int) -> tuple[int, Link]:
    """The device above a device, and a NIC's link to it: as the device's own where that is PCIe, else (a GPU on C2C or
    xGMI) as that of a NIC of the machine's, else one of which nothing is known."""
    leaving = [machine.links[n] for n in machine.leaving(device)]
    for kind in (LinkKind.PCIE, LinkKind.C2C, LinkKind.XGMI, LinkKind.SHM):
        for link in leaving:
            up = machine.devices[link.target].kind
            if link.kind is kind and up in (DeviceKind.PCI, DeviceKind.CPU):
                return link.target, link if kind is LinkKind.PCIE else _nic_link(machine)
    raise ValueError(
        f"{machine.name}: {machine.devices[device].name} is attached to no PCIe switch or CPU; expected one, "
        "for its NIC"
    )


def _nic_link(machine: Machine) -> Link:
    """The first PCIe link of a NIC of the machine's; else one that is slower than any NIC."""
    own = (machine.links[n] for nic in machine.nics for n in machine.leaving(nic))
    return next((link for link in own if link.kind is LinkKind.PCIE), UNKNOWN_SLOT)


def _near_gpus(machine: Machine, count: int) -> list[tuple[int, Link]]:
    anchors = machine.gpus or machine.of_kind(DeviceKind.CPU)
    if not anchors:
        raise ValueError(f"{machine.name}: neither GPU nor CPU; expected one, to know where a NIC goes")
    if not machine.gpus:
        cpu = [anchors[n * len(anchors) // count % len(anchors)] for n in range(count)]
        return [(at, UNKNOWN_SLOT) for at in cpu]
    near = [anchors[n * len(anchors) // count] if count <= len(anchors) else anchors[n % len(anchors)]
            for n in range(count)]  # fmt: skip
    return [_slot(machine, gpu) for gpu in near]


def _another(like: Device, name: str) -> Device:
    """A NIC of the same kind: what says which port it is, as its guid does, is not another's."""
    kind = {key: text for key, text in like.attributes.items() if key in _OF_A_KIND}
    return replace(like, name=name, busid="", attributes=MappingProxyType(kind))


def _free(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "'"
    return name


MAKERS = {
    "0x15b3": "infiniband",
    "mellanox": "infiniband",
    "nvidia": "infiniband",
    "0x1d0f": "efa",
    "amazon": "efa",
    "0x17db": "slingshot",
    "hpe": "slingshot",
    "0x1ae0": "tcp",
    "google": "tcp",
}
"""The fabric that a maker's NICs are for, by vendor as machines and as files name it."""
_ETHERNET = "0x0200"
RAILS = "rails"
"""The attribute of a NIC that stands for several: their number."""
LINE_RATE = "line_rate_Bps"
"""The attribute of a NIC whose rate is a share of its own: its own."""


def usual_fabric(machine: Machine) -> str | None:
    """The name of the fabric that the machine's NICs are made for: their attribute `fabric`, else
    their maker's, where Mellanox' cards of PCI class Ethernet are RoCE's; None for a machine without NICs. ValueError
    for a fabric that is not known."""
    if not machine.nics:
        return None
    nic = machine.devices[machine.nics[0]]
    if (wanted := nic.attributes.get("fabric")) is not None:
        if wanted not in FABRICS:
            raise ValueError(
                f"{machine.name}: {nic.name} is for fabric {wanted!r}; expected one of {', '.join(FABRICS)}"
            )
        return wanted
    return fabric_by_maker(nic)


def fabric_by_maker(nic: Device) -> str:
    """The name of the fabric that a maker's NICs are for."""
    found = MAKERS.get(nic.vendor.lower(), "infiniband" if nic.gdr else "tcp")
    ethernet = nic.attributes.get("class", "").startswith(_ETHERNET)
    return "roce" if found == "infiniband" and ethernet else found


def as_shown(cluster: Cluster) -> Cluster:
    """The cluster with the NICs NCCL is shown: with EFA those of a PCIe switch in as many groups as it has GPUs, each
    group as one NIC of their rates together, since the plugin sends on all of them at once (aws-ofi-nccl 2daf7d3,
    src/nccl_ofi_topo.cpp, its RDMA protocol)."""
    if cluster.nodes == 1 or cluster.fabric is None or cluster.fabric.name != "efa":
        return cluster
    machine = _grouped(cluster.machine)
    return cluster if machine is cluster.machine else replace(cluster, machine=machine)


@lru_cache(maxsize=16)
def _grouped(machine: Machine) -> Machine:
    below: dict[int, list[int]] = {}
    for nic in machine.nics:
        below.setdefault(_switch(machine, nic), []).append(nic)
    gpus = Counter(_switch(machine, gpu) for gpu in machine.gpus)
    groups = [group for switch, nics in below.items() for group in _split(nics, gpus[switch])]
    if all(len(nics) == 1 for nics in groups):
        return machine
    first = {nics[0]: nics for nics in groups}
    devices = list(machine.devices)
    for nic, nics in first.items():
        own = devices[nic]
        attributes = MappingProxyType(dict(own.attributes) | {RAILS: str(len(nics))})
        devices[nic] = replace(own, rate_Bps=sum(devices[n].rate_Bps for n in nics), attributes=attributes)
    links = []
    for link in machine.links:
        times = len(first.get(link.source, first.get(link.target, [link.source])))
        links.append(replace(link, bandwidth_Bps=link.bandwidth_Bps * times, width=link.width * times))
    dropped = set(machine.nics) - set(first)
    wider = replace(machine, devices=tuple(devices), links=tuple(links))
    return wider.of_devices([n for n in range(len(devices)) if n not in dropped])


def _switch(machine: Machine, device: int) -> int:
    """The PCIe switch above a device; the device itself where there is none."""
    ups = [machine.links[n].target for n in machine.leaving(device)]
    return next((up for up in ups if machine.devices[up].kind is DeviceKind.PCI), device)


def _split(nics: Sequence[int], parts: int) -> list[Sequence[int]]:
    """The NICs in `parts` groups at most, at least one, the first ones longer by one where the division has a rest."""
    parts = max(1, min(parts, len(nics)))
    size, rest = divmod(len(nics), parts)
    starts = [k * size + min(k, rest) for k in range(parts + 1)]
    return [nics[a:b] for a, b in pairwise(starts)]
