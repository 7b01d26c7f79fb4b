"""The constants of thread blocks on a device, by protocol, and their file.

As JSON, with the topology they were fitted on, in the words of `--topology`:

    {"topology": "mi300x8", "protocols": {"Simple": {"launch_s": 1e-5, "step_s": 1e-6, "block_Bps": 2e10,
     "link_share": 0.9, "piece_nbytes": 2097152, "slices": 2, "slots": 2}}}
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from math import inf
from pathlib import Path
from typing import Any

from ringtree.files.file_bytes import file_bytes
from ringtree.files.json_values import json_value

LARGEST_BYTES = 1 << 20
"""A file beyond this is refused unread."""
WHAT = "a device's constants, as `ringtree simulate --fit` writes them"
RANGES = {
    "launch_s": (0.0, 1e6), "step_s": (0.0, 1e6), "block_Bps": (1.0, 1e15), "link_share": (1e-6, 1.0),
    "reduce_Bps": (1.0, inf), "piece_nbytes": (128, 1 << 40), "slices": (1, 64), "slots": (1, 1 << 20),
}  # fmt: skip
"""The least and the most of each constant."""


@dataclass(frozen=True, slots=True)
class DeviceConstants:
    """A protocol's constants.

    `launch_s`: from a call to the first step of its thread blocks. `step_s`: a step's synchronization with its peer (a
    send, a receive, both in one, a copy). `block_Bps`: the bytes a second that one thread block copies, from memory to
    memory or onto a link; a reduction takes `reduce_Bps` more for each source after the first. `link_share`: the share
    of a link's bandwidth that payload reaches.

    A thread block takes a *piece* of every chunk, of at most `piece_nbytes`, through all its steps before the next
    piece. Within a step a piece goes in `slices`, each of which the receiver may take when it has arrived. `slots`: the
    pieces of a lane that may lie unread before its sender waits.
    """

    launch_s: float
    step_s: float
    block_Bps: float
    link_share: float = 1.0
    reduce_Bps: float = inf
    piece_nbytes: int = 1 << 40
    slices: int = 1
    slots: int = 2

    def __post_init__(self) -> None:
        for name, (least, most) in RANGES.items():
            value = getattr(self, name)
            if not least <= value <= most:
                raise ValueError(f"{name} is {value!r}; expected {least:g} to {most:g}")


@dataclass(frozen=True, slots=True)
class ConstantsFile:
    """The content of a file: constants by protocol, and the topology they were fitted on (empty: not recorded)."""

    protocols: Mapping[str, DeviceConstants]
    topology: str = ""

    def of(self, protocol: str, where: str) -> DeviceConstants:
        """The protocol's constants. ValueError, naming the file by `where`: if it has none."""
        if protocol not in self.protocols:
            known = ", ".join(self.protocols)
            raise ValueError(f"{where}: no constants of protocol {protocol}, which the program has; it has {known}")
        return self.protocols[protocol]


def dumps(content: ConstantsFile) -> str:
    """The content as JSON, which `load` reads. Unlimited rates are left out."""
    protocols = {
        name: {key: value for key, value in asdict(constants).items() if value != inf}
        for name, constants in content.protocols.items()
    }
    return json.dumps({"topology": content.topology, "protocols": protocols}, indent=1) + "\n"


def load(path: Path) -> ConstantsFile:
    """The content of a file. ValueError, in one line with the file: if it is none."""
    document = json_value(file_bytes(path, WHAT, LARGEST_BYTES), str(path), WHAT)
    if not isinstance(document, dict) or set(document) != {"topology", "protocols"}:
        raise ValueError(f"{path}: expected {WHAT}: an object of topology and protocols")
    topology, protocols = document["topology"], document["protocols"]
    if not isinstance(topology, str) or not topology.isprintable():
        raise ValueError(f"{path}: topology is {json.dumps(topology)[:40]}; expected a text, as of --topology")
    if not isinstance(protocols, dict) or not protocols or not all(map(str.isprintable, protocols)):
        raise ValueError(f"{path}: protocols is {json.dumps(protocols)[:40]}; expected an object of constants by name")
    return ConstantsFile({name: _constants(path, name, value) for name, value in protocols.items()}, topology)


def _constants(path: Path, protocol: str, value: Any) -> DeviceConstants:
    where = f"{path}: protocol {protocol[:20]}"
    if not isinstance(value, dict):
        raise ValueError(f"{where} is {json.dumps(value)[:40]}; expected an object of constants")
    known = {f.name: f for f in fields(DeviceConstants)}
    for name, number in value.items():
        if name not in known:
            raise ValueError(f"{where} has {name[:40]!r}; expected only {', '.join(known)}")
        whole = known[name].type == "int"
        if isinstance(number, bool) or not isinstance(number, int if whole else (int, float)):
            raise ValueError(f"{where}: {name} is {json.dumps(number)[:40]}; expected a {'whole ' * whole}number")
    for name, field in known.items():
        if field.default is MISSING and name not in value:
            raise ValueError(f"{where} lacks {name!r}")
    try:
        return DeviceConstants(**value)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None
