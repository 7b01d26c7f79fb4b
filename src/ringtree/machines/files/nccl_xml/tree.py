"""A machine as the tree that the format wants: every device below a CPU, with a busid of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from ringtree.machines import pci
from ringtree.machines.machine import DeviceKind, Link, LinkKind, Machine

_BELOW = (DeviceKind.PCI, DeviceKind.GPU, DeviceKind.NIC, DeviceKind.STORAGE)


@dataclass(frozen=True, slots=True)
class PciTree:
    """`below`: by device, those under it; `uplink`: each one's link up, where it has one; `host`: by CPU, the number
    of its host; `cpu`: by device, the CPU at the top; `busid`: by device, NVSwitches too."""

    below: dict[int, list[int]]
    uplink: dict[int, Link]
    host: dict[int, int]
    cpu: dict[int, int]
    busid: dict[int, str]


def tree(machine: Machine) -> PciTree:
    """The tree of a machine. ValueError: if it has no CPU, for in this format all devices hang from CPUs."""
    cpus = machine.of_kind(DeviceKind.CPU)
    if not cpus:
        raise ValueError(f"{machine.name} has no CPU; expected one: in NCCL's format all devices hang from CPUs")
    up: dict[int, int] = {}
    uplink: dict[int, Link] = {}
    for start in (*cpus, *machine.of_kind(DeviceKind.PCI)):
        if start not in up and start not in cpus:
            up[start] = _cpu_for(machine, start, cpus)  # a switch without an uplink
        for link in _spread(machine, start, up):
            up[link.target] = link.source
            uplink[link.target] = link
    for n, device in enumerate(machine.devices):
        if device.kind in _BELOW and n not in up:
            up[n] = _cpu_for(machine, n, cpus)
    below: dict[int, list[int]] = {}
    for n in sorted(up):
        below.setdefault(up[n], []).append(n)
    return PciTree(below, uplink, _hosts(machine, cpus), {n: _top(up, n) for n in (*up, *cpus)}, _busids(machine))


def _spread(machine: Machine, start: int, up: dict[int, int]) -> Iterator[Link]:
    """The PCIe links from a CPU or switch to devices that are not in the tree yet, and on from the switches among
    them."""
    waiting = [start]
    seen = {start}
    while waiting:
        at = waiting.pop(0)
        for n in machine.leaving(at):
            link = machine.links[n]
            kind = machine.devices[link.target].kind
            if link.kind is LinkKind.PCIE and kind in _BELOW and link.target not in up and link.target not in seen:
                seen.add(link.target)
                if kind is DeviceKind.PCI:
                    waiting.append(link.target)
                yield link


def _cpu_for(machine: Machine, device: int, cpus: tuple[int, ...]) -> int:
    linked = [machine.links[n].target for n in machine.leaving(device) if machine.links[n].target in cpus]
    near = [c for c in cpus if machine.devices[c].numa == machine.devices[device].numa]
    return (linked or near or cpus)[0]


def _top(up: dict[int, int], device: int) -> int:
    while device in up:
        device = up[device]
    return device


def _hosts(machine: Machine, cpus: tuple[int, ...]) -> dict[int, int]:
    """CPUs that links join are one host's."""
    host: dict[int, int] = {}
    for start in cpus:
        if start in host:
            continue
        host[start] = len(set(host.values()))
        waiting = [start]
        while waiting:
            for n in machine.leaving(waiting.pop()):
                link = machine.links[n]
                if link.kind is LinkKind.CPU and link.target not in host:
                    host[link.target] = host[start]
                    waiting.append(link.target)
    numas = Counter(machine.devices[c].numa for c in cpus)
    return host if max(numas.values()) > 1 else dict.fromkeys(cpus, 0)


def _busids(machine: Machine) -> dict[int, str]:
    """Busids: a device's own where no other device has it, else the next free one."""
    found: dict[int, str] = {}
    taken = set[str]()
    wanted = [n for n, d in enumerate(machine.devices) if d.kind in (*_BELOW, DeviceKind.NVSWITCH)]
    for n in wanted:
        own = machine.devices[n].busid.lower()
        if pci.is_busid(own) and own not in taken:
            found[n] = own
            taken.add(own)
    free = (f"{n >> 8:04x}:{n & 0xFF:02x}:00.0" for n in range(1, 2**20))
    for n in wanted:
        if n not in found:
            found[n] = next(f for f in free if f not in taken)
    return found
