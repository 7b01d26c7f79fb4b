"""Machines as faults change them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from types import MappingProxyType

from ringtree.machines.link_figures import data_Bps
from ringtree.machines.machine import Device, DeviceKind, Link, LinkKind, Machine, both_ways

DIRECT = frozenset({LinkKind.NVLINK, LinkKind.XGMI})
MEMORY_Bps = {3: 6 * 21.3e9, 4: 8 * 25.6e9, 5: 8 * 38.4e9, 6: 12 * 51.2e9}
"""Bandwidth of a CPU's memory, by the generation of its PCIe: six channels of DDR4-2666 (Skylake), eight of DDR4-3200
(Rome), eight of DDR5-4800 (Sapphire Rapids), twelve of DDR5-6400 (Turin), by the makers' data sheets."""
MEMORY_SHARE = 0.8
"""The share of it that streams reach: McCalpin's STREAM on these CPUs."""
STAGED_PASSES = 4
"""Passes of a byte over the memory, where a host's buffer is between GPU and NIC: written and read at both ends, and
each host is both."""


def without_p2p(gpu: Device) -> Device:
    """A GPU that reads no other's memory over PCIe."""
    return with_attribute(gpu, "p2p")


def with_attribute(device: Device, name: str) -> Device:
    """A device whose attribute of that name is off."""
    return replace(device, attributes=MappingProxyType({**device.attributes, name: "0"}))


def without_gdr(nic: Device) -> Device:
    """A NIC that cannot register a GPU's memory."""
    return replace(nic, gdr=False)


def changed(machine: Machine, kind: DeviceKind, change: Callable[[Device], Device]) -> Machine:
    """The machine with every device of a kind changed."""
    return replace(machine, devices=tuple(change(d) if d.kind is kind else d for d in machine.devices))


def without_direct(machine: Machine) -> Machine:
    """The machine without the links between GPUs and their switches."""
    links = tuple(k for k in machine.links if k.kind not in DIRECT)
    return without(replace(machine, links=links), machine.of_kind(DeviceKind.NVSWITCH))


def first_nics(machine: Machine, used: int) -> Machine:
    """The machine with some of its NICs."""
    return without(machine, machine.nics[used:])


def without(machine: Machine, gone: Collection[int]) -> Machine:
    """The machine without some devices and their links."""
    return machine.of_devices([n for n in range(len(machine.devices)) if n not in gone])


def halved(machine: Machine) -> Machine:
    """The machine with PCIe of half the lanes; a NIC's rate is cut to its slot's."""
    links = tuple(_narrowed(k, 2) if k.kind is LinkKind.PCIE else k for k in machine.links)
    slots = {k.source: k.bandwidth_Bps for k in links if k.kind is LinkKind.PCIE and k.source in machine.nics}
    return capped(replace(machine, links=links), slots)


def capped(machine: Machine, most_Bps: Mapping[int, float]) -> Machine:
    """The machine with NICs of at most those rates, by device number."""
    devices = tuple(
        replace(d, rate_Bps=min(d.rate_Bps, most_Bps[n])) if n in most_Bps and d.rate_Bps else d
        for n, d in enumerate(machine.devices)
    )
    return replace(machine, devices=devices)


def up_and_down(machine: Machine) -> Machine:
    """The machine whose PCIe switches send everything up to the CPU and down again: what passes between two devices
    below a switch passes the switch's link to the CPU twice, once each way, beside all the others there."""
    shares = Counter[int]()
    ups = {n: up for n in (*machine.gpus, *machine.nics) if (up := uplink(machine, n)) is not None}
    nics = set(machine.nics)
    for n, up in ups.items():
        if n in nics or not nics:
            shares[up] += 2 if n in nics else 1
    most = {n: data_Bps(machine.links[up]) / shares[up] for n, up in ups.items() if n in nics}
    if nics:
        return capped(machine, most)
    lanes = {n: shares[up] for n, up in ups.items()}
    links = tuple(
        _narrowed(k, lanes.get(k.source, lanes.get(k.target, 1))) if k.kind is LinkKind.PCIE else k
        for k in machine.links
    )
    return replace(machine, links=links)


def uplink(machine: Machine, device: int) -> int | None:
    """The number of the link up, to the CPU or the next switch, from the PCIe switch that a device hangs off; None
    without a switch."""
    for n in machine.leaving(device):
        link = machine.links[n]
        if link.kind is LinkKind.PCIE and machine.devices[link.target].kind is DeviceKind.PCI:
            up = machine.leaving(link.target)
            above = (DeviceKind.CPU, DeviceKind.PCI)
            return next((k for k in up if _is_pcie_to(machine, k, above)), None)
    return None


def _is_pcie_to(machine: Machine, number: int, kinds: Collection[DeviceKind]) -> bool:
    link = machine.links[number]
    return link.kind is LinkKind.PCIE and machine.devices[link.target].kind in kinds


def through_memory(machine: Machine) -> Machine:
    """The machine whose NICs share the bandwidth of their CPUs' memory, four passes for a byte."""
    cpus = max(len(machine.of_kind(DeviceKind.CPU)), 1)
    newest = max((k.generation for k in machine.links if k.kind is LinkKind.PCIE), default=0)
    memory_Bps = MEMORY_Bps.get(newest, MEMORY_Bps[3]) * MEMORY_SHARE * cpus
    each_Bps = memory_Bps / STAGED_PASSES / max(len(machine.nics), 1)
    return capped(machine, dict.fromkeys(machine.nics, each_Bps))


def far(machine: Machine, devices: Collection[int]) -> Machine:
    """The machine with some devices at a CPU of their own, a CPU link from every other."""
    cpus = machine.of_kind(DeviceKind.CPU)
    between = max((k for k in machine.links if k.kind is LinkKind.CPU), key=lambda k: k.bandwidth_Bps, default=None)
    if between is None:
        return machine
    away = len(machine.devices)
    links = []
    for k in machine.links:
        if k.kind is LinkKind.PCIE and k.source in devices:
            k = replace(k, target=away)
        elif k.kind is LinkKind.PCIE and k.target in devices:
            k = replace(k, source=away)
        links.append(k)
    for cpu in cpus:
        links += both_ways(replace(between, source=cpu, target=away))
    one = replace(machine.devices[cpus[0]], name="another socket", numa=-1)
    return replace(machine, devices=(*machine.devices, one), links=tuple(links))


def _narrowed(link: Link, times: int) -> Link:
    return replace(link, bandwidth_Bps=link.bandwidth_Bps / times, width=max(link.width // times, 1))
