"""Statements of a file that NCCL misreads, or that make it slow."""

from __future__ import annotations

from ringtree.machines import pci
from ringtree.machines.files.nccl_xml.parsed import Parsed
from ringtree.machines.machine import DeviceKind, NoteKind

_ARTIFICIAL = 8
"""An uplink slower than one of the devices below it by this factor is not real."""


def find(parsed: Parsed) -> None:
    """Notes the traps of a file in the draft."""
    _speeds(parsed)
    _uplinks(parsed)
    for number, device in enumerate(parsed.draft.devices):
        if device.kind is DeviceKind.GPU and not device.gdr:
            text = "gdr=0: no GPUDirect RDMA, so a NIC's data for it is copied to host memory and back"
            parsed.draft.note(NoteKind.TRAP, number, text)


def _speeds(parsed: Parsed) -> None:
    for slot in parsed.slots:
        if slot.number is None or slot.link is None:
            continue
        speed = slot.element.attributes.get("link_speed", "")
        taken, meant = pci.generation_for_nccl(speed), pci.generation(speed) or slot.link.generation
        if taken != meant:
            text = (
                f'link_speed "{speed[:20]}": NCCL does not know it and silently takes PCIe {taken} for PCIe '
                f'{meant}; write "{pci.speed_for_nccl(meant)}"'
            )
            parsed.draft.note(NoteKind.TRAP, slot.number, text)


def _uplinks(parsed: Parsed) -> None:
    fastest: dict[int, float] = {}
    for slot in parsed.slots:
        if slot.number is not None and slot.link is not None:
            above = parsed.by_number.get(slot.up)
            if parsed.draft.devices[slot.number].kind not in (DeviceKind.GPU, DeviceKind.NIC):
                continue
            while above is not None and above.number is not None:
                fastest[above.number] = max(fastest.get(above.number, 0.0), slot.link.bandwidth_Bps)
                above = parsed.by_number.get(above.up)
    for number, below in fastest.items():
        switch = parsed.by_number.get(number)
        link = switch.link if switch else None
        if link is None or link.bandwidth_Bps * _ARTIFICIAL > below:
            continue
        text = (
            f"the uplink is given as PCIe {link.generation} x{link.width}, {link.bandwidth_Bps / 1e9:.3g} GB/s, "
            f"above a device of {below / 1e9:.3g} GB/s: an artificial speed, which keeps NCCL's traffic below "
            "the switch and off the CPU; copies through the host are priced at the given speed"
        )
        parsed.draft.note(NoteKind.TRAP, number, text)
