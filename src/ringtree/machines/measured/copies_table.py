"""Measured copies as rows, with what the driver reported beside them: `ringtree tune --device cuda --json`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import Enum
from math import isfinite
from pathlib import Path
from typing import Any

from ringtree.files.file_bytes import file_bytes
from ringtree.files.json_values import json_value, shown
from ringtree.files.own_kinds import kind_of_json, kind_of_text
from ringtree.machines.detect.nvml_state import GpuState
from ringtree.machines.files import machine_json
from ringtree.machines.machine import DeviceKind, Machine

FORM = 1
MOST_BYTES = 1 << 24
MOST_ROWS = 100_000
EXPECTED = "what `ringtree tune --device cuda --json` writes"


class CopyMethod(str, Enum):
    """PINNED and PAGEABLE: from or to the host's memory of that kind. PEER: from GPU to GPU with peer access, STAGED:
    without. LOCAL: within a GPU."""

    PINNED = "pinned"
    PAGEABLE = "pageable"
    PEER = "peer"
    STAGED = "staged"
    LOCAL = "local"


@dataclass(frozen=True, slots=True)
class MeasuredCopy:
    """A copy of `nbytes` that took `seconds`. `source` and `target` are devices of the machine by name, a CPU for the
    host's memory. `both`: with an equal copy the other way at once."""

    source: str
    target: str
    method: CopyMethod
    nbytes: int
    seconds: float
    both: bool = False


@dataclass(frozen=True, eq=False)
class CopyTable:
    """`machine` has nominal figures, as it was detected. `states` by the GPUs' names, read while copies ran; empty
    without NVML. `refused`: pairs of GPUs to which the driver gave no peer access, with its reason."""

    machine: Machine
    rows: tuple[MeasuredCopy, ...]
    date: str
    states: Mapping[str, GpuState] = field(default_factory=dict)
    refused: Mapping[tuple[str, str], str] = field(default_factory=dict)
    driver: str = ""

    def __post_init__(self) -> None:
        kinds = {d.name: d.kind for d in self.machine.devices}
        for n, row in enumerate(self.rows):
            for name in (row.source, row.target):
                if kinds.get(name) not in (DeviceKind.GPU, DeviceKind.CPU):
                    raise ValueError(f"rows[{n}]: {name!r} is no GPU or CPU of the machine {self.machine.name}")
            if not (0 < row.nbytes < 1 << 63 and 1e-12 <= row.seconds < 1e6):
                words = f"{shown(row.nbytes)} bytes in {row.seconds:g} s"
                raise ValueError(f"rows[{n}]: {words}; expected a byte or more, and a time of a picosecond or more")

    def rates(self) -> dict[Transfer, Rate]:
        """Each transfer's latency (of its smallest copy) and bandwidth (the most of any size), in the rows' order."""
        found: dict[Transfer, list[MeasuredCopy]] = {}
        for row in self.rows:
            found.setdefault(Transfer(row.source, row.target, row.method, row.both), []).append(row)
        return {transfer: _rate(rows) for transfer, rows in found.items()}


@dataclass(frozen=True, slots=True)
class Transfer:
    """Copies of one kind from one memory to another."""

    source: str
    target: str
    method: CopyMethod
    both: bool = False


@dataclass(frozen=True, slots=True)
class Rate:
    """`bandwidth_Bps` is one direction's, also where both ran at once."""

    latency_s: float
    bandwidth_Bps: float


def _rate(rows: list[MeasuredCopy]) -> Rate:
    smallest = min(rows, key=lambda row: row.nbytes)
    latency_s = min(row.seconds for row in rows if row.nbytes == smallest.nbytes)
    return Rate(latency_s, max(row.nbytes / row.seconds for row in rows))


def text(table: CopyTable) -> str:
    """The table as JSON, a row a line, which `parse` reads."""
    rows = ",\n  ".join(json.dumps({**asdict(row), "method": row.method.value}) for row in table.rows)
    states = {name: _state_json(state) for name, state in table.states.items()}
    refused = [[a, b, why] for (a, b), why in table.refused.items()]
    head = {"form": FORM, "date": table.date, "driver": table.driver, "states": states, "refused": refused}
    machine = machine_json.text(table.machine).strip()
    return f'{json.dumps(head, ensure_ascii=False)[:-1]},\n "machine": {machine},\n "rows": [\n  {rows}\n ]}}\n'


def _state_json(state: GpuState) -> dict[str, Any]:
    return {f.name: _plain(getattr(state, f.name)) for f in fields(state)}


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else list(value) if isinstance(value, tuple) else value


def read(path: str | Path) -> CopyTable:
    """The table in a file. ValueError, in one line with file and element: if it is none."""
    return parse(file_bytes(path, EXPECTED, MOST_BYTES), str(path))


def parse(data: str | bytes, file: str) -> CopyTable:
    """The table in a text. ValueError as `read`."""
    if kind := kind_of_text(data):
        raise ValueError(f"{file}: {kind}; expected {EXPECTED}")
    value = json_value(data, file, EXPECTED)
    if not isinstance(value, dict) or not {"form", "machine", "rows"} <= {*value}:
        what = kind_of_json(value) or f"{shown(value)} has no form, machine and rows"
        raise ValueError(f"{file}: {what}; expected {EXPECTED}")
    if value.get("form") != FORM:
        raise ValueError(f"{file}: form {shown(value.get('form'))}; expected {FORM}")
    machine = machine_json.built(value["machine"], f"{file}: machine")
    try:
        rows = tuple(_rows(value["rows"]))
        states = {_line(name): _state(state) for name, state in dict(value.get("states", {})).items()}
        refused = {(_line(a), _line(b)): _line(why) for a, b, why in value.get("refused", [])}
        return CopyTable(machine, rows, _line(value["date"]), states, refused, _line(value.get("driver", "")))
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
        why = f"lacks {error}" if isinstance(error, KeyError) else " ".join(str(error).split())
        raise ValueError(f"{file}: {why}; expected {EXPECTED}") from None


def _rows(values: Any) -> Iterator[MeasuredCopy]:
    if not isinstance(values, list) or len(values) > MOST_ROWS:
        raise ValueError(f"rows is {shown(values)}; expected a list of at most {MOST_ROWS:,}")
    for n, row in enumerate(values):
        seconds, nbytes = float(row["seconds"]), row["nbytes"]
        if type(nbytes) is not int or not isfinite(seconds):
            raise ValueError(f"rows[{n}]: {shown(row)}; expected bytes as a whole number, and seconds")
        ends = _line(row["source"]), _line(row["target"])
        yield MeasuredCopy(*ends, CopyMethod(row["method"]), nbytes, seconds, row.get("both") is True)


def _state(value: Any) -> GpuState:
    numbers = {
        f.name: int(value.get(f.name, 0))
        for f in fields(GpuState)
        if f.name.endswith(("generation", "width")) or f.name.startswith("nvlinks")
    }
    return GpuState(
        _line(value["busid"]),
        _line(value.get("name", "")),
        slowed=tuple(map(_line, value.get("slowed", []))),
        mig=value.get("mig") is True,
        peers={_line(busid): _line(answer) for busid, answer in dict(value.get("peers", {})).items()},
        **numbers,
    )


def _line(value: Any) -> str:
    if not isinstance(value, str) or not value.isprintable() or len(value) > 300:
        raise ValueError(f"{shown(value)} is no short line of text")
    return value
