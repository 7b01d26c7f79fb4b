"""The PCIe switch or NUMA node that each device hangs on, the link to it, and notes on misleading reports."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ringtree.machines import parts
from ringtree.machines.building import MachineBuilder
from ringtree.machines.detect.pci import PciDevice, Speed
from ringtree.machines.machine import Device, DeviceKind, LinkKind, NoteKind

ASSUMED = Speed(8.0, 16)
"""NCCL's assumption for a link without figures."""
GTps = {generation: speed for speed, generation in parts.PCIE_GTps.items()}
"""Speed of a lane in GT/s, by PCIe's generation."""
EMULATED = {(0x104C, 0x8232), (0x1B36, 0x000C)}
"""Switches that QEMU emulates, whose link speed is not real: TI's XIO3130, and its own root port."""


class Attachments:
    """Adds the switches that devices hang on, and the links. `numbers`: the NUMA nodes by number, each with its
    device's name."""

    def __init__(self, builder: MachineBuilder, pci: Mapping[str, PciDevice], cpus: Mapping[int, str]) -> None:
        self._builder, self._pci, self._cpus = builder, pci, cpus
        self._switches: dict[str, str] = {}
        self._unreported: list[str] = []
        self._homeless: dict[str, int] = {}  # the NUMA node that is reported, or -1

    def numa(self, busid: str) -> int:
        """The NUMA node with CPUs that a device is near, as the device or a bridge over it reports; -1 where none
        does."""
        return next((n for n in self._reported(busid) if n in self._cpus), -1)

    def cpu(self, busid: str) -> str:
        """The name of the NUMA node that a device is near, the first where none is known."""
        return self._cpus.get(self.numa(busid), self._first_cpu)

    def join(self, name: str, busid: str, kind: DeviceKind, usual: Speed = ASSUMED) -> None:
        """Hangs the device on its switch or NUMA node. `usual`: its link, where sysfs does not report it."""
        device = self._pci.get(busid)
        if device is None:
            self._unreported.append(name)
            self._link(name, self._cpu(name, busid), usual)
            return
        above = self._switch(device.switch) if device.switch in self._pci else self._cpu(name, busid)
        self._link(name, above, self._speed(name, device, kind, usual))

    def join_by(self, name: str, busid: str, bandwidth_Bps: float) -> None:
        """Hangs the device where its PCI controller hangs, by a link of that bandwidth."""
        device = self._pci[busid]
        above = self._switch(device.switch) if device.switch in self._pci else self._cpu(name, busid)
        self._builder.link(name, above, LinkKind.PCIE, bandwidth_Bps)

    def note(self) -> None:
        """Adds the notes on assumptions about several devices."""
        note = self._builder.note
        if self._unreported:
            text = "sysfs reports no link speed or width, as in a virtual machine: taken as the part's, else as "
            text += "PCIe 3 x16, as NCCL does; put it right in the file that --xml or --json writes"
            for name in self._unreported:
                note(NoteKind.ASSUMED, name, text)
        taken = f"taken to be near {self._first_cpu}, which may be the wrong one"
        for name, numa in self._homeless.items():
            if numa >= 0:
                note(NoteKind.TRAP, name, f"sysfs reports NUMA node {numa}, which has no CPUs: {taken}")
            elif len(self._cpus) > 1:
                note(NoteKind.TRAP, name, f"sysfs reports no NUMA node for it: {taken}")

    @property
    def _first_cpu(self) -> str:
        return next(iter(self._cpus.values()))

    def _cpu(self, name: str, busid: str) -> str:
        numa = self.numa(busid)
        if numa < 0:
            self._homeless[name] = next((n for n in self._reported(busid) if n >= 0), -1)
            return self._first_cpu
        return self._cpus[numa]

    def _reported(self, busid: str) -> list[int]:
        """The NUMA nodes that the device and the bridges over it report."""
        device = self._pci.get(busid)
        return [] if device is None else [device.numa, *(self._pci[b].numa for b in device.above if b in self._pci)]

    def _switch(self, busid: str) -> str:
        """The switch's name; adds it, and those over it, where they are not there yet."""
        if busid in self._switches:
            return self._switches[busid]
        device = self._pci[busid]
        name = self._switches[busid] = self._builder.free(f"pci{len(self._switches)}")
        attributes = MappingProxyType(dict(device.attributes))
        self._builder.add(Device(name, DeviceKind.PCI, busid=busid, numa=self.numa(busid), attributes=attributes))
        self.join(name, busid, DeviceKind.PCI)
        return name

    def _speed(self, name: str, device: PciDevice, kind: DeviceKind, usual: Speed) -> Speed:
        if (device.maker, device.model) in EMULATED:
            fastest = self._fastest_below(device.busid)
            text = f"a switch emulated by QEMU reports {device.speed}; NCCL uses that, this file {fastest}"
            self._builder.note(NoteKind.TRAP, name, text)
            return fastest
        now, most = device.speed, device.most
        if not (now.GTps and now.width):
            self._unreported.append(name)
            return usual
        if now.GTps >= most.GTps and now.width >= most.width:
            return now
        port = self._pci[device.above[0]].most if device.above and device.above[0] in self._pci else Speed()
        text = f"its PCIe link runs at {now} of at most {most}"
        if port.width and (port.GTps < most.GTps or port.width < most.width):
            text += f"; the port over it, {device.above[0]}, has at most {port}"
        elif kind is DeviceKind.GPU and now.width >= most.width:
            text += "; a GPU that is idle slows its link down, so look again under load: taken at its most here"
            now = most
        self._builder.note(NoteKind.TRAP, name, text)
        return now

    def _fastest_below(self, busid: str) -> Speed:
        below = [d.speed for d in self._pci.values() if busid in d.above and d.speed.width]
        return max(below, key=lambda s: s.GTps * s.width, default=ASSUMED)

    def _link(self, name: str, above: str, speed: Speed) -> None:
        generation = parts.PCIE_GTps.get(speed.GTps, 3)
        self._builder.pcie(name, above, generation, speed.width)
