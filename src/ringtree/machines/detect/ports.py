"""Network cards and storage, as sysfs lists them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ringtree.machines.detect.pci import busid_of
from ringtree.machines.pci import slot_of
from ringtree.machines.sysfs import Sysfs

NET, RDMA, NVME, BLOCK = "sys/class/net", "sys/class/infiniband", "sys/class/nvme", "sys/class/block"
SATA_Bps = {"1.5": 150e6, "3.0": 300e6, "6.0": 600e6}
"""Bytes a second by the text of /sys/class/ata_link, Gb/s on the wire: eight of ten bits are data."""


@dataclass(frozen=True, slots=True)
class Port:
    """A network card's port: `rdma` is its RDMA device, empty where it has none; `layer` InfiniBand or Ethernet;
    `rate_Bps` 0 where unknown; `down` whether its link is."""

    name: str
    busid: str
    rdma: str
    number: int
    layer: str
    rate_Bps: float
    down: bool
    guid: str = ""


@dataclass(frozen=True, slots=True)
class Disk:
    """`rate_Bps` is its own link's where that is not PCIe (SATA), else 0."""

    name: str
    busid: str
    model: str
    rate_Bps: float


def ports(sysfs: Sysfs) -> tuple[Port, ...]:
    """RDMA devices port by port, then cards with network interfaces only: a bond of RDMA has but one of its card's
    functions. Interfaces without a device (bridges, tunnels, lo) are none."""
    rdma = [port for name in sysfs.folder(RDMA) for port in _rdma_ports(sysfs, name)]
    taken = {slot_of(port.busid) for port in rdma if port.busid}
    plain = [_interface(sysfs, name) for name in sysfs.folder(NET) if sysfs.real(f"{NET}/{name}/device")]
    return (*rdma, *(port for port in plain if slot_of(port.busid) not in taken))


def disks(sysfs: Sysfs) -> tuple[Disk, ...]:
    """NVMe controllers, and block devices on a PCI controller (SATA, virtio); no partitions."""
    found = [_nvme(sysfs, name) for name in sysfs.folder(NVME)]
    for name in sysfs.folder(BLOCK):
        if re.fullmatch(r"(sd|vd|xvd)[a-z]{1,3}", name) and (busid := busid_of(sysfs, f"{BLOCK}/{name}")):
            found.append(Disk(name, busid, sysfs.line(f"{BLOCK}/{name}/device/model"), _sata_Bps(sysfs, name)))
    return tuple(found)


def _rdma_ports(sysfs: Sysfs, name: str) -> list[Port]:
    at = f"{RDMA}/{name}"
    busid = busid_of(sysfs, f"{at}/device")
    numbers = [int(n) for n in sysfs.folder(f"{at}/ports") if n.isdecimal() and len(n) < 4]
    guid = sysfs.text(f"{at}/node_guid").replace(":", "")
    return [_rdma_port(sysfs, name, busid, number, len(numbers), guid) for number in numbers]


def _rdma_port(sysfs: Sysfs, name: str, busid: str, number: int, many: int, guid: str) -> Port:
    at = f"{RDMA}/{name}/ports/{number}"
    rate = re.match(r"(\d{1,5}(?:\.\d+)?) Gb/sec", sysfs.text(f"{at}/rate"))
    state = sysfs.text(f"{at}/state")
    known = guid if re.fullmatch(r"[0-9a-f]{16}", guid) and int(guid, 16) else ""
    return Port(
        name if many == 1 else f"{name}:{number}",
        busid,
        name,
        number,
        sysfs.text(f"{at}/link_layer"),
        float(rate[1]) * 1e9 / 8 if rate else 0.0,
        "DOWN" in state,
        f"0x{known}" if known else "",
    )


def _interface(sysfs: Sysfs, name: str) -> Port:
    at = f"{NET}/{name}"
    Mbps = sysfs.number(f"{at}/speed", 0)
    rate_Bps = Mbps * 1e6 / 8 if 0 < Mbps < 1 << 31 else 0.0  # 4294967295 is -1, as some drivers report it
    return Port(
        name, busid_of(sysfs, f"{at}/device"), "", 1, "Ethernet", rate_Bps, sysfs.text(f"{at}/operstate") == "down"
    )


def _nvme(sysfs: Sysfs, name: str) -> Disk:
    return Disk(name, busid_of(sysfs, f"{NVME}/{name}/device"), sysfs.line(f"{NVME}/{name}/model"), 0.0)


def _sata_Bps(sysfs: Sysfs, name: str) -> float:
    """The bandwidth of a disk in B/s, by the link of its ATA port."""
    path = sysfs.real(f"{BLOCK}/{name}")
    port = re.search(r"/ata(\d{1,4})/", path)
    speed = sysfs.text(f"sys/class/ata_link/link{port[1]}/sata_spd") if port else ""
    return SATA_Bps.get(speed.split(" ")[0], 0.0)
