"""A machine as JSON, both ways without loss: links between devices by name, fields at their defaults left out.

{"machine": "pair", "devices": [{"name": "gpu0", "kind": "gpu"}, {"name": "gpu1", "kind": "gpu", "sm": 80}],
 "links": [{"source": "gpu0", "target": "gpu1", "kind": "nvlink", "bandwidth_Bps": 3e11, "width": 12}],
 "notes": [{"kind": "assumed", "about": "gpu0", "text": "…"}]}
"""

from __future__ import annotations

import json
import re
from dataclasses import MISSING, Field, fields
from enum import Enum
from math import inf
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ringtree.files.file_bytes import file_bytes
from ringtree.files.json_values import json_value
from ringtree.files.replacing import replacing
from ringtree.machines.files.draft import MOST_OF_A_KIND
from ringtree.machines.machine import Device, DeviceKind, Link, LinkKind, Machine, Note, NoteKind

MOST_BYTES = 2**23
_MOST = {"devices": MOST_OF_A_KIND * len(DeviceKind), "links": 200_000, "notes": 10_000}
_BANDWIDTH = re.compile(r"0*[1-9][0-9]{0,17}(\.[0-9]{1,20})?")
_LEAST = {"numa": -1, "width": 1}
_KINDS: dict[type, type[Enum]] = {Device: DeviceKind, Link: LinkKind, Note: NoteKind}


def text(machine: Machine) -> str:
    """The machine as JSON, a device, a link and a note a line, which `parse` reads."""
    names = [d.name for d in machine.devices]
    rows = {
        "devices": [_row(d) for d in machine.devices],
        "links": [_row(k) | {"source": names[k.source], "target": names[k.target]} for k in machine.links],
        "notes": [_row(n) for n in machine.notes],
    }
    lines = {key: ",\n  ".join(json.dumps(row, ensure_ascii=False) for row in of) for key, of in rows.items()}
    parts = ",\n ".join(f'"{key}": [\n  {of}\n ]' if of else f'"{key}": []' for key, of in lines.items())
    return f'{{"machine": {json.dumps(machine.name, ensure_ascii=False)},\n {parts}}}\n'


def read(path: str | Path) -> Machine:
    """The machine in a file. ValueError, in one line with file and element: if it is none."""
    return parse(file_bytes(path, "a machine as JSON", MOST_BYTES), str(path))


def write(machine: Machine, path: str | Path) -> None:
    """Writes the machine to a file, which `read` reads. OSError: if it cannot be written."""
    data = text(machine).encode()
    with replacing(Path(path)) as file:
        file.write(data)


def parse(data: str | bytes, file: str) -> Machine:
    """The machine in a text. ValueError as `read`."""
    return built(json_value(data, file, "a machine"), file)


def built(data: object, file: str) -> Machine:
    """The machine of JSON's values; every element is checked before it is used."""
    if not isinstance(data, dict) or "machine" not in data:
        raise ValueError(f"{file}: {_short(data)}; expected a machine: an object with machine, devices and links")
    for key in data:
        if key not in ("machine", *_MOST):
            raise ValueError(f"{file}: has {_short(key)}; expected only machine, {', '.join(_MOST)}")
    name = _typed(data["machine"], str, f"{file}: machine")
    rows = {key: _list(data.get(key, []), f"{file}: {key}", most) for key, most in _MOST.items()}
    devices = tuple(_built(Device, row, f"{file}: devices[{n}]") for n, row in enumerate(rows["devices"]))
    for n, device in enumerate(devices):
        if device.kind is DeviceKind.NIC and device.rate_Bps == inf:
            raise ValueError(f"{file}: devices[{n}]: rate_Bps is inf; expected the NIC's line rate, such as 5e10")
    number = {d.name: n for n, d in enumerate(devices)}
    links = []
    for n, row in enumerate(rows["links"]):
        where = f"{file}: links[{n}]"
        ends = {}
        for end in ("source", "target") if isinstance(row, dict) else ():
            if not isinstance(row.get(end), str) or row[end] not in number:
                raise ValueError(f"{where}: {end} is {_short(row.get(end))}; expected the name of a device")
            ends[end] = number[row[end]]
        links.append(_built(Link, row | ends if ends else row, where))
    notes = tuple(_built(Note, row, f"{file}: notes[{n}]") for n, row in enumerate(rows["notes"]))
    try:
        return Machine(name, devices, tuple(links), notes)
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from None


def _row(of: Any) -> dict[str, Any]:
    """Fields that are not at their defaults."""
    row: dict[str, Any] = {}
    for field in fields(of):
        value = getattr(of, field.name)
        if field.name == "attributes":
            if value:
                row[field.name] = dict(value)
        elif field.default is MISSING or value != field.default:
            row[field.name] = "inf" if value == inf else value.value if isinstance(value, Enum) else value
    return row


def _built(kind: type, row: object, where: str) -> Any:
    if not isinstance(row, dict):
        raise ValueError(f"{where} is {_short(row)}; expected an object")
    known = {f.name: f for f in fields(kind)}
    for key in row:
        if key not in known:
            raise ValueError(f"{where} has {_short(key)}; expected only {', '.join(known)}")
    values = {}
    for key, field in known.items():
        if key in row:
            values[key] = _value(kind, field, row[key], f"{where}: {key}")
        elif field.default is MISSING and field.default_factory is MISSING:
            raise ValueError(f"{where} lacks {key!r}")
    return kind(**values)


def _value(kind: type, field: Field[Any], value: object, where: str) -> object:
    if field.name == "kind":
        of = _KINDS[kind]
        if value not in [k.value for k in of]:
            raise ValueError(f"{where} is {_short(value)}; expected one of {', '.join(k.value for k in of)}")
        return of(value)
    if field.name == "attributes":
        by_key = _typed(value, dict, where)
        for key, of_key in by_key.items():
            _typed(of_key, str, f"{where}: {_short(key)}")
        if not _BANDWIDTH.fullmatch(memory_Bps := by_key.get("memory_Bps", "1")):
            raise ValueError(f"{where}: memory_Bps is {_short(memory_Bps)}; expected bytes a second in digits")
        return MappingProxyType(dict(by_key))
    wanted = {"str": str, "int": int, "float": float, "bool": bool}[str(field.type)]
    if wanted is float:
        if value == "inf":
            return inf
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1e300:
            raise ValueError(f"{where} is {_short(value)}; expected a number of at least 0")
        return float(value)
    found = _typed(value, wanted, where)
    if wanted is int and not (least := _LEAST.get(field.name, 0)) <= found < 2**31:
        raise ValueError(f"{where} is {_short(value)}; expected a whole number of at least {least}, of 32 bits")
    return found


def _typed(value: object, wanted: type, where: str) -> Any:
    words = {str: "a text that can be printed", int: "a whole number", bool: "true or false", dict: "an object"}
    if type(value) is not wanted or (isinstance(value, str) and not value.isprintable()):
        raise ValueError(f"{where} is {_short(value)}; expected {words[wanted]}")
    return value


def _list(value: object, where: str, most: int) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"{where} is {_short(value)}; expected a list")
    if len(value) > most:
        raise ValueError(f"{where}: {len(value):,}; expected at most {most:,}")
    return value


def _short(value: object) -> str:
    text = (
        json.dumps(value)
        if not isinstance(value, (dict, list))
        else "an object"
        if isinstance(value, dict)
        else "a list"
    )
    return text if len(text) <= 40 else text[:40] + "…"
