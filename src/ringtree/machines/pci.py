"""PCI as sysfs and topology files write it: busids, classes, link speeds."""

from __future__ import annotations

import re

from ringtree.machines import parts
from ringtree.machines.machine import DeviceKind

_SPEED = re.compile(r"(\d{1,3}(?:\.\d{1,3})?)\s*GT/s(?:\s*PCIe)?", re.IGNORECASE)
_NCCL_SPEEDS = (
    ("2.5 GT/s", 1), ("5 GT/s", 2), ("8 GT/s", 3), ("16 GT/s", 4), ("32 GT/s", 5), ("5.0 GT/s PCIe", 2),
    ("8.0 GT/s PCIe", 3), ("16.0 GT/s PCIe", 4), ("32.0 GT/s PCIe", 5), ("64.0 GT/s PCIe", 6),
)  # fmt: skip
NCCL_DEFAULT_GENERATION = 3
NCCL_DEFAULT_WIDTH = 16
WIDEST = 32
UNKNOWN_WIDTH = 255
"""Kernels write 63 or this where they do not know the width."""

VENDORS = {
    **parts.PCI_VENDORS, 0x1022: "amd", 0x8086: "intel", 0x15B3: "mellanox", 0x1D0F: "amazon", 0x17DB: "hpe",
    0x1AE0: "google", 0x14E4: "broadcom", 0x1000: "broadcom", 0x1414: "microsoft", 0x104C: "texas instruments",
    0x1AF4: "virtio", 0x144D: "samsung",
}  # fmt: skip
"""Makers by PCI vendor id (pci-ids.ucw.cz)."""


def slot_of(busid: str) -> str:
    """The busid without the function, as of a card whose ports are functions of one device; "" for none."""
    return busid.rpartition(".")[0]


def generation(speed: str) -> int:
    """The PCIe generation of a link speed such as `16.0 GT/s PCIe` or `8 GT/s`; 0 where the text has none."""
    found = _SPEED.fullmatch(speed.strip())
    return parts.PCIE_GTps.get(float(found[1]), 0) if found else 0


def generation_for_nccl(speed: str) -> int:
    """The generation that NCCL takes a link speed for: it compares the start with ten strings, and falls back to the
    third generation silently (NVIDIA/nccl, src/graph/topo.cc, kvDictPciGen)."""
    return next((g for start, g in _NCCL_SPEEDS if speed.startswith(start)), NCCL_DEFAULT_GENERATION)


def speed_for_nccl(generation: int) -> str:
    """The text that NCCL, and `generation`, read as that generation."""
    return next((s for s, g in reversed(_NCCL_SPEEDS) if g == generation), "")


def kind_of_class(code: int) -> DeviceKind:
    """The kind of a device of that PCI class (24 bits); PCI for other classes, as for NCCL."""
    major, sub = code >> 16, code >> 8
    if major == 0x03 or major == 0x12:
        return DeviceKind.GPU
    if sub == 0x0680:
        return DeviceKind.CPU if code == 0x068001 else DeviceKind.NVSWITCH
    return {0x01: DeviceKind.STORAGE, 0x02: DeviceKind.NIC}.get(major, DeviceKind.PCI)


def kind_of(code: int, vendor: int, device: int = 0) -> DeviceKind:
    """As `kind_of_class`, with what vendor and device id show besides (0: missing): a model of parts.GPUS is a GPU
    whatever its class; other displays with a VGA connector are consoles, unless NVIDIA's; a display or an accelerator
    of a maker whose GPUs no table has (an FPGA, say) is none."""
    if parts.gpu_by_id(vendor, device) is not None:
        return DeviceKind.GPU
    kind = kind_of_class(code)
    if kind is not DeviceKind.GPU or vendor == 0:
        return kind
    console = code >> 8 == 0x0300 and VENDORS.get(vendor) == "amd"
    return DeviceKind.PCI if console or vendor not in parts.PCI_VENDORS else kind


def unknown_accelerator(code: int, vendor: int, device: int) -> str:
    """The words for a device that may compute and is left out, since no table knows it: its class, and its ids as
    `[8086:0b2b]`; empty for other devices, and for the console of a board."""
    word = _MAY_COMPUTE.get(code >> 8, _MAY_COMPUTE.get(code >> 16, ""))
    console = code >> 8 == 0x0300 and VENDORS.get(vendor) != "amd"
    if not word or console or kind_of(code, vendor, device) is DeviceKind.GPU:
        return ""
    return f"{word} [{vendor:04x}:{device:04x}]"


_MAY_COMPUTE = {0x0300: "display", 0x0302: "3D controller", 0x0380: "display controller", 0x12: "accelerator"}
"""Classes of devices that may compute, by class and subclass or by class."""


def is_busid(text: str) -> bool:
    """Whether a text is a busid such as `0000:a1:00.0`; virtual machines have longer domains."""
    return re.fullmatch(r"[0-9a-fA-F]{1,8}:[0-9a-fA-F]{1,2}:[0-9a-fA-F]{1,2}\.[0-9a-fA-F]", text) is not None


def busid_order(busid: str) -> tuple[int, ...]:
    """A sort key of a busid, in the order in which the bus and drivers count devices."""
    return tuple(int(part, 16) for part in re.split("[:.]", busid)) if is_busid(busid) else ()
