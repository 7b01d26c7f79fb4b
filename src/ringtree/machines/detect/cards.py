"""Network cards and storage as devices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from ringtree.machines import parts
from ringtree.machines.building import MachineBuilder
from ringtree.machines.detect.attachments import ASSUMED, Attachments, GTps
from ringtree.machines.detect.pci import PciDevice, Speed
from ringtree.machines.detect.ports import Disk, Port
from ringtree.machines.machine import Device, DeviceKind, NoteKind
from ringtree.machines.nics import MAKERS
from ringtree.machines.pci import VENDORS, slot_of
from ringtree.topology.fabrics import FABRICS

UNKNOWN_Bps = 1.25e9
"""The rate of a NIC without a known one: 10 Gb/s, as NCCL takes it."""
DISK = Speed(8.0, 4)
"""The link of a drive without a known one."""


def add_nics(
    builder: MachineBuilder, attachments: Attachments, pci: Mapping[str, PciDevice], found: Sequence[Port]
) -> dict[str, bool]:
    """Adds one NIC for each card, its ports together; returns, by name, whether the NIC does RDMA. To NCCL, too, the
    functions of a PCI device with RDMA are one NIC (NVIDIA/nccl, src/transport/net_ib.cc)."""
    cards: dict[str, list[Port]] = {}
    for port in found:
        if port.busid not in pci or not pci[port.busid].virtual:
            cards.setdefault((port.rdma and slot_of(port.busid)) or port.busid or port.name, []).append(port)
    for card in cards.values():
        _add_nic(builder, attachments, pci.get(card[0].busid), card)
    return {card[0].name: bool(card[0].rdma) for card in cards.values()}


def _add_nic(builder: MachineBuilder, attachments: Attachments, device: PciDevice | None, card: Sequence[Port]) -> None:
    first = card[0]
    name = builder.free(first.name.partition(":")[0] if len(card) > 1 else first.name)
    part = parts.nic_by_id(device.maker, device.model) if device else None
    rate_Bps = sum(port.rate_Bps for port in card)
    if not rate_Bps:
        rate_Bps = part.rate_Bps if part else UNKNOWN_Bps
        text = f"no reported rate: taken as {rate_Bps * 8e-9:g} Gb/s, {f'a {part.model}' if part else 'as NCCL does'}"
        builder.note(NoteKind.ASSUMED, name, f"{text}; set it by --nics 1x25Gb")
    if down := [port.name for port in card if port.down]:
        builder.note(NoteKind.TRAP, name, f"the link of {', '.join(down)} is down")
    attributes = dict(device.attributes) if device else {}
    attributes |= {"ports": str(len(card)), "fabric": _fabric(device, first)}
    attributes |= {key: text for key, text in (("guid", first.guid), ("rdma", first.rdma)) if text}
    builder.add(
        Device(
            name,
            DeviceKind.NIC,
            part.vendor if part else VENDORS.get(device.maker, f"0x{device.maker:04x}") if device else "",
            part.model if part else "",
            first.busid,
            attachments.numa(first.busid),
            gdr=bool(first.rdma) and device is not None and (part is None or part.gdr),
            rate_Bps=rate_Bps,
            attributes=MappingProxyType(attributes),
        )
    )
    attachments.join(name, first.busid, DeviceKind.NIC, Speed(GTps[part.pcie], 16) if part else ASSUMED)


def _fabric(device: PciDevice | None, port: Port) -> str:
    if not port.rdma:
        return "tcp"
    by_layer = "infiniband" if port.layer == "InfiniBand" else "roce"
    own = MAKERS.get(VENDORS.get(device.maker, "") if device else "", by_layer)
    return own if FABRICS[own].rdma and own != "infiniband" else by_layer


def add_disk(builder: MachineBuilder, attachments: Attachments, pci: Mapping[str, PciDevice], disk: Disk) -> None:
    """Adds an NVMe disk and its PCIe link; nothing where the PCI device is virtual."""
    if disk.busid in pci and pci[disk.busid].virtual:
        return
    name = builder.free(disk.name)
    builder.add(Device(name, DeviceKind.STORAGE, "", disk.model, disk.busid, attachments.numa(disk.busid)))
    if disk.rate_Bps and disk.busid in pci:
        attachments.join_by(name, disk.busid, disk.rate_Bps)
    else:
        attachments.join(name, disk.busid, DeviceKind.STORAGE, DISK)
