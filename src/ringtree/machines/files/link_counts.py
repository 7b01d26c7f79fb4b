"""Links between GPUs that are more than any GPU has."""

from __future__ import annotations

from ringtree.machines import parts
from ringtree.machines.files.draft import Draft
from ringtree.machines.machine import DeviceKind, LinkKind, NoteKind

_MOST_OF_MODEL = 2
"""Links of a GPU over its model's that are taken to be real: RCCL's own file 8p6l has twice the MI100's."""


def note_too_many(draft: Draft, taken: str) -> None:
    """Notes GPUs whose links to others are far more than their model has, or, where it is unknown, than any. `taken`:
    who takes the file's number, in words."""
    widths: dict[int, int] = {}
    for link in draft.links:
        of_gpu = draft.devices[link.source].kind is DeviceKind.GPU
        if of_gpu and link.kind in (LinkKind.NVLINK, LinkKind.XGMI):
            widths[link.source] = widths.get(link.source, 0) + link.width
    for number, width in widths.items():
        device = draft.devices[number]
        part = parts.GPUS.get(device.model)
        most = (
            part.wires if part else max((p.wires for p in parts.GPUS.values() if p.vendor == device.vendor), default=0)
        )
        if (part or most) and _MOST_OF_MODEL * most < width:
            whose = f"{part.model} has {most}" if part else f"no GPU of {device.vendor} has more than {most}"
            text = f"{width} links to others, and {whose}: {taken}; write the real number"
            draft.note(NoteKind.TRAP, number, text)
