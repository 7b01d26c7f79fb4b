"""The user's assumptions about facts that a file lacks: `gpu=h100-sxm,nic=400Gb/s`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ringtree.machines import parts
from ringtree.machines.files.draft import Draft
from ringtree.machines.machine import Machine, Note, NoteKind
from ringtree.topology.text import bytes_per_second

NVLINKS = ("nvswitch", "mesh", "pairs", "none")
_KEYS = ("gpu", "nic", "nvlink", "gdr")
_NOT_USED = "not used: "


@dataclass(frozen=True, slots=True)
class Assumed:
    """Facts assumed of a machine, None where nothing was given. `nvlink`: the layout of the GPUs' NVLinks (or xGMI),
    one of NVLINKS."""

    gpu: parts.GpuPart | None = None
    nic_Bps: float | None = None
    nvlink: str | None = None
    gdr: bool | None = None

    @staticmethod
    def of(given: Mapping[str, str]) -> Assumed:
        """The assumptions of texts, as a command line has them. ValueError, in one line: if one is none."""
        for key in given:
            if key not in _KEYS:
                raise ValueError(f"assume {key!r}: expected one of {', '.join(f'{k}=' for k in _KEYS)}")
        nvlink, gdr = given.get("nvlink"), given.get("gdr")
        if nvlink is not None and nvlink not in NVLINKS:
            raise ValueError(f"assume nvlink={nvlink!r}: expected one of {', '.join(NVLINKS)}")
        if gdr not in (None, "0", "1"):
            raise ValueError(f"assume gdr={gdr!r}: expected 0 or 1")
        return Assumed(
            gpu=_gpu(given["gpu"]) if "gpu" in given else None,
            nic_Bps=_rate(given["nic"]) if "nic" in given else None,
            nvlink=nvlink,
            gdr=None if gdr is None else gdr == "1",
        )


def assumptions(text: str) -> dict[str, str]:
    """`gpu=h100-sxm,nic=400Gb/s` as the mapping that `read` takes; ValueError where an item is no key=value."""
    given: dict[str, str] = {}
    for item in filter(None, text.split(",")):
        key, equals, value = (part.strip() for part in item.partition("="))
        if not equals or not value:
            raise ValueError(f"assume {item!r}: expected such as gpu=h100-sxm,nic=400Gb/s")
        if key in given:
            raise ValueError(f"assume {key}= twice, {given[key]} and {value}: expected one")
        given[key] = value
    Assumed.of(given)
    return given


def note_unused(draft: Draft, key: str, why: str) -> None:
    """Notes that an assumption changes nothing, such as "the file has it"."""
    draft.note(NoteKind.ASSUMED, f"{key}=", _NOT_USED + why)


def unused(machine: Machine) -> list[Note]:
    """The notes of assumptions that changed nothing."""
    keys = {f"{key}=" for key in _KEYS}
    return [
        note for note in machine.notes if note.text.startswith(_NOT_USED) and keys.issuperset(note.about.split(", "))
    ]


def _gpu(text: str) -> parts.GpuPart:
    """A model by its name or the start of its name; case and separators do not matter."""
    plain = {_plain(model): part for model, part in parts.GPUS.items()}
    wanted = _plain(text)
    if wanted in plain:
        return plain[wanted]
    found = [part for name, part in plain.items() if wanted and name.startswith(wanted)]
    if len(found) != 1:
        some = found or [p for n, p in plain.items() if wanted[:2] and n.startswith(wanted[:2])] or list(plain.values())
        problem = "matches several" if found else "is none that is known"
        raise ValueError(f"assume gpu={text!r} {problem}: expected one of {', '.join(p.model for p in some)}")
    return found[0]


def _plain(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.lower())


def _rate(text: str) -> float:
    try:
        rate = bytes_per_second(text if text.endswith("s") else f"{text}/s")
    except ValueError:
        rate = 0.0
    if not 0 < rate < 1e13:
        raise ValueError(f"assume nic={text!r}: expected a rate such as 400Gb/s")
    return rate
