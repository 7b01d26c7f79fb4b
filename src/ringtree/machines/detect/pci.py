"""The PCI devices that sysfs lists, and the bridges above each."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ringtree.machines.sysfs import Sysfs

DEVICES = "sys/bus/pci/devices"
BUSID = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
WIDTHS = (1, 2, 4, 8, 12, 16, 32)
"""The widths that a link can have; kernels report 0, 63 or 255 where unknown."""


@dataclass(frozen=True, slots=True)
class Speed:
    """A link's: transfers of a lane in GT/s and lanes, 0 where unknown; and as sysfs spells the first."""

    GTps: float = 0.0
    width: int = 0
    spelled: str = ""

    def __str__(self) -> str:
        return f"{self.GTps:g} GT/s x{self.width}" if self.GTps and self.width else "unknown speed"


@dataclass(frozen=True, slots=True)
class PciDevice:
    """`above`: the busids of the bridges over it, the nearest first. `numa` is -1 where unknown. `virtual`: a part
    of another device (SR-IOV)."""

    busid: str
    above: tuple[str, ...]
    attributes: Mapping[str, str]
    speed: Speed
    most: Speed
    numa: int
    virtual: bool

    @property
    def kind(self) -> int:
        """Class and subclass, as 0x0302."""
        return int(self.attributes["class"], 16) >> 8

    @property
    def maker(self) -> int:
        """PCI vendor id."""
        return int(self.attributes["vendor"], 16)

    @property
    def model(self) -> int:
        """PCI device id."""
        return int(self.attributes["device"], 16)

    @property
    def switch(self) -> str:
        """The busid of the switch that it hangs on, its upstream port; empty where it hangs on the CPU. As NCCL walks
        it: past the port above, on which nothing else hangs."""
        return self.above[1] if len(self.above) > 1 else ""


def pci_devices(sysfs: Sysfs) -> dict[str, PciDevice]:
    """The devices whose busid, class, vendor and device id are known, by busid."""
    found = (_read(sysfs, name) for name in sysfs.folder(DEVICES))
    return {device.busid: device for device in found if device is not None}


def busid_of(sysfs: Sysfs, path: str) -> str:
    """The busid of the PCI device that a path in /sys, such as `sys/class/net/eth0/device`, leads to; empty if none."""
    parts = sysfs.real(path).split("/")
    return next((part for part in reversed(parts) if BUSID.fullmatch(part)), "")


def _read(sysfs: Sysfs, busid: str) -> PciDevice | None:
    at = f"{DEVICES}/{busid}"
    hexes = {name: sysfs.text(f"{at}/{name}") for name in _HEXES}
    ids = {name: text for name, text in hexes.items() if re.fullmatch(r"0x[0-9a-f]{4,6}", text)}
    if not BUSID.fullmatch(busid) or not {"class", "vendor", "device"} <= ids.keys():
        return None
    parts = sysfs.real(at).split("/")
    above = tuple(part for part in reversed(parts[:-1]) if BUSID.fullmatch(part))
    speed, most = (_speed(sysfs, at, which) for which in ("current", "max"))
    link = {"link_speed": speed.spelled, "link_width": str(speed.width) if speed.width else ""}
    attributes = ids | {name: text for name, text in link.items() if text}
    virtual = bool(sysfs.real(f"{at}/physfn"))
    return PciDevice(busid, above, attributes, speed, most, sysfs.number(f"{at}/numa_node"), virtual)


_HEXES = ("class", "vendor", "device", "subsystem_vendor", "subsystem_device")


def _speed(sysfs: Sysfs, at: str, which: str) -> Speed:
    spelled = sysfs.text(f"{at}/{which}_link_speed")
    found = re.match(r"(\d{1,3}(?:\.\d)?) GT/s", spelled)
    width = sysfs.number(f"{at}/{which}_link_width", 0)
    return Speed(float(found[1]) if found else 0.0, width if width in WIDTHS else 0, spelled if found else "")
