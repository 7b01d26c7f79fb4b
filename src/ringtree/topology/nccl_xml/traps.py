"""What a file tells and NCCL will read otherwise, or to the machine's harm."""

from __future__ import annotations

from ringtree.topology import pci
from ringtree.topology.machine import DeviceKind, NoteKind
from ringtree.topology.nccl_xml.parsed import Parsed

_ARTIFICIAL = 8
"""An uplink that so many times a device below it would overload is no real one."""


def find(parsed: Parsed) -> None:
    """Notes them in the draft."""
    _speeds(parsed)
    _uplinks(parsed)
    for number, device in enumerate(parsed.draft.devices):
        if device.kind is DeviceKind.GPU and not device.gdr:
            text = "gdr=0: no GPUDirect RDMA, so what a NIC carries of it is copied to host memory and back"
            parsed.draft.note(NoteKind.TRAP, number, text)


def _speeds(parsed: Parsed) -> None:
    for slot in parsed.slots:
        speed, meant = slot.element.attributes.get("link_speed", ""), slot.link
        if slot.number is None or meant is None:
            continue
        taken = pci.generation_for_nccl(speed)
        if taken != meant.generation:
            text = (
                f'link_speed "{speed[:20]}": NCCL does not know it and silently takes PCIe {taken} for PCIe '
                f'{meant.generation}; write "{pci.speed_for_nccl(meant.generation)}"'
            )
            parsed.draft.note(NoteKind.TRAP, slot.number, text)


def _uplinks(parsed: Parsed) -> None:
    fastest: dict[int, float] = {}
    for slot in parsed.slots:
        if slot.number is not None and slot.link is not None:
            kind = parsed.draft.devices[slot.number].kind
            if kind in (DeviceKind.GPU, DeviceKind.NIC):
                fastest[slot.up] = max(fastest.get(slot.up, 0.0), slot.link.bandwidth_Bps)
    for number, below in fastest.items():
        switch = parsed.by_number.get(number)
        link = switch.link if switch else None
        if link is None or link.bandwidth_Bps * _ARTIFICIAL > below:
            continue
        text = (
            f"its uplink is told as PCIe {link.generation} x{link.width}, {link.bandwidth_Bps / 1e9:.3g} GB/s, above a "
            f"device of {below / 1e9:.3g} GB/s: an artificial one, which keeps NCCL's traffic below the switch and off "
            "the CPU; copies through the host are priced at what is told"
        )
        parsed.draft.note(NoteKind.TRAP, number, text)
