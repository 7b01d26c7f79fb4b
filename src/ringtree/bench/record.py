"""The record of a measurement: a row for each case, and the machine they were measured on. The only way back from
measuring to planning is this file."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, TypeGuard

from ringtree.bench.data import datatype
from ringtree.bench.machine import MachineDescription, describe
from ringtree.bench.measure import Effort, Sample, measure
from ringtree.bench.sweep import SweepCase
from ringtree.files.file_bytes import file_bytes
from ringtree.files.json_values import json_value, printable, shown
from ringtree.files.own_kinds import kind_of_json, kind_of_text
from ringtree.files.replacing import replace_with_json
from ringtree.ir.collective import COLLECTIVES
from ringtree.ir.collective import collective as find_collective

if TYPE_CHECKING:
    from ringtree.runtime.communicator.communicator import Communicator


class BenchRow(TypedDict):
    """One measured case. Times are medians over iterations, of the slowest rank unless asked otherwise; `nbytes` is the
    whole vector's; `wrong` counts elements over all iterations and ranks. None: there is no such side, or no check. A
    barrier has no out-of-place side: its `time_us` is the in-place one."""

    collective: str
    ranks: int
    nbytes: int
    count: int
    dtype: str
    op: str
    root: int
    algorithm: str
    program: str
    time_us: float
    time_min_us: float
    algbw_GBps: float
    busbw_GBps: float
    wrong: int | None
    in_place_time_us: float
    in_place_time_min_us: float
    in_place_algbw_GBps: float
    in_place_busbw_GBps: float
    in_place_wrong: int | None
    out_of_place: bool
    iterations: int
    threads: bool


def bandwidths(collective: str, ranks: int, nbytes: int, time_us: float) -> tuple[float, float]:
    """(algorithm bandwidth, bus bandwidth) in GB/s, by nccl-tests' definitions."""
    algbw = nbytes / time_us / 1e3 if time_us else 0.0
    return algbw, algbw * find_collective(collective).bus_factor(ranks)


def row(case: SweepCase, chosen: tuple[str, str], apart: Sample | None, in_place: Sample, *, threads: bool) -> BenchRow:
    """The row of a case. `chosen`: the algorithm that ran and its program's digest."""
    first = apart or in_place
    algbw, busbw = bandwidths(case.collective, case.ranks, case.nbytes, first.median_us)
    in_algbw, in_busbw = bandwidths(case.collective, case.ranks, case.nbytes, in_place.median_us)
    return BenchRow(
        collective=case.collective,
        ranks=case.ranks,
        nbytes=case.nbytes,
        count=case.elements,
        dtype=case.dtype,
        op=case.op,
        root=case.root,
        algorithm=chosen[0],
        program=chosen[1],
        time_us=first.median_us,
        time_min_us=first.best_us,
        algbw_GBps=algbw,
        busbw_GBps=busbw,
        wrong=first.wrong,
        in_place_time_us=in_place.median_us,
        in_place_time_min_us=in_place.best_us,
        in_place_algbw_GBps=in_algbw,
        in_place_busbw_GBps=in_busbw,
        in_place_wrong=in_place.wrong,
        out_of_place=apart is not None,
        iterations=len(in_place.seconds),
        threads=threads,
    )


def measured(comm: Communicator, case: SweepCase, effort: Effort, threads: bool) -> BenchRow:
    """Measures the case on this communicator's ranks, all of which call this, and makes its row."""
    op = "max" if case.op == "none" else case.op
    count = case.count or 1  # a barrier's token
    root = max(case.root, 0)
    kind = datatype(case.dtype)
    bound = comm.chosen(
        case.collective, count, kind, op=op, root=root, algorithm=case.forced, symmetric=effort.symmetric
    )
    program = bound.part.program
    return row(case, (program.name, program.digest()), *measure(comm, case, effort), threads=threads)


class Record(TypedDict):
    """A bench's JSON file: the machine, how it was measured, and a row for each size and call."""

    machine: MachineDescription
    effort: dict[str, object]
    rows: list[BenchRow]


def write(path: Path, rows: Sequence[BenchRow], effort: Effort, lacking: int = 0) -> None:
    """Writes the record as JSON. `lacking`: the number of cases that a bench which was cut off did not measure."""
    options: dict[str, object] = {name: getattr(effort, name) for name in effort.__slots__}
    record = Record(machine=describe(), effort=options, rows=list(rows))
    replace_with_json(path, {**record, "lacking": lacking} if lacking else record)


def read(path: Path) -> dict[str, Any]:
    """The record in a file that `write` wrote. For other programs' figures, a row needs only a collective, ranks,
    nbytes, dtype, op and a time (out of place or in); `library` names the program. ValueError: if the file is something
    else, or cannot be read."""
    data = file_bytes(path, EXPECTED, MOST_BYTES)
    if kind := kind_of_text(data):
        raise ValueError(f"{path}: {kind}; expected {EXPECTED}")
    record = json_value(data, str(path), EXPECTED)
    rows = record.get("rows") if isinstance(record, dict) else None
    copies = isinstance(record, dict) and {"form", "states"} <= record.keys()  # which have a machine and rows as well
    if copies or not isinstance(rows, list) or not isinstance(record.get("machine"), dict):
        what = kind_of_json(record) or "not a bench record"
        raise ValueError(f"{path}: {what}; expected `machine` and `rows`, as `ringtree bench --json` writes")
    if not isinstance(record.get("effort", {}), dict):
        raise ValueError(f"{path}: effort: expected an object, as `ringtree bench --json` writes")
    for part, kinds in (("machine", MACHINE), ("effort", EFFORT)):
        if wrong := _mistaken(record.get(part, {}), kinds):
            raise ValueError(f"{path}: {part}: {wrong}")
    if not rows:
        raise ValueError(f"{path}: `rows` is empty; expected a row at least")
    for number, row in enumerate(rows):
        if lacking := _lacking(row):
            raise ValueError(f"{path}: row {number}: {lacking}")
    try:
        json.dumps(record, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError:
        raise ValueError(f"{path}: half of a surrogate pair; expected figures that are finite, and text") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: {error}; expected figures that are finite, and text") from None
    plain = {part: _printable(record[part]) for part in ("machine", "effort") if part in record}
    return {**record, **plain, "rows": [*map(_printable, rows)]}


EXPECTED = "a bench record, as `ringtree bench --json` writes"
MOST_BYTES = 1 << 25


class FieldKind(NamedTuple):
    """The values that a field may have, in words and as a test."""

    expected: str
    has: Callable[[object], bool]


def _printable(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields, with texts as a terminal may have them."""
    return {name: _printable_value(value) for name, value in fields.items()}


def _printable_value(value: Any) -> Any:
    if isinstance(value, list):
        return [printable(word) if isinstance(word, str) else word for word in value]
    return printable(value) if isinstance(value, str) else value


def whole(low: int) -> FieldKind:
    """Whole numbers from `low` on that a float and 64 bits have."""
    return FieldKind(
        f"a whole number, at least {low}",
        lambda value: isinstance(value, int) and not isinstance(value, bool) and low <= value < 2**53,
    )


def or_null(kind: FieldKind) -> FieldKind:
    """The same, or None: there is no such side, or no check."""
    return FieldKind(kind.expected, lambda value: value is None or kind.has(value))


NAME = FieldKind("its name", lambda value: isinstance(value, str))
WORDS = FieldKind("text", lambda value: isinstance(value, str))
LIST = FieldKind("a list of texts", lambda value: isinstance(value, list) and all(isinstance(v, str) for v in value))
FLAG = FieldKind("true or false", lambda value: isinstance(value, bool))
FIGURE = FieldKind("a number, at least 0", lambda value: _is_number(value) and 0 <= value < float("inf"))
NEEDED = {"collective": NAME, "dtype": NAME, "op": NAME, "ranks": whole(1), "nbytes": whole(0)}
"""Fields that a row must have, beside a time."""
OPTIONAL = {
    **dict.fromkeys(("library", "algorithm", "program"), NAME),
    **dict.fromkeys(("count", "iterations"), whole(0)),
    **dict.fromkeys(("wrong", "in_place_wrong"), or_null(whole(0))),
    **dict.fromkeys(("algbw_GBps", "busbw_GBps", "in_place_algbw_GBps", "in_place_busbw_GBps"), or_null(FIGURE)),
    **dict.fromkeys(("out_of_place", "threads"), FLAG),
    "root": whole(-1),
    "predicted_us": or_null(FIGURE),
}
MACHINE = {
    **dict.fromkeys(("cpu", "kernel", "python", "numpy", "ringtree"), WORDS),
    **dict.fromkeys(("cores", "numa_nodes", "memory_bytes"), whole(0)),
    "caches": LIST,
}
EFFORT = {
    "warmup": whole(0),
    "iterations": or_null(whole(1)),
    **dict.fromkeys(("check", "symmetric"), FLAG),
    "across": whole(0),
}
TIMES = ("time_us", "time_min_us", "in_place_time_us", "in_place_time_min_us")
SHORTEST_US, LONGEST_US = 1e-6, 1e15


def _lacking(row: object) -> str:
    """The reason why a row cannot be shown; empty where it can."""
    if not isinstance(row, Mapping):
        return "expected an object"
    for name, kind in NEEDED.items():
        if not kind.has(value := row.get(name)):
            return f"{name}: got {shown(value)}; expected {kind.expected}"
    if wrong := _mistaken(row, OPTIONAL):
        return wrong
    if row["collective"] not in COLLECTIVES:
        return f"collective: got {shown(row['collective'])}; expected one of {', '.join(COLLECTIVES)}"
    for name in TIMES:
        time_us = row.get(name)
        if time_us is not None and not (_is_number(time_us) and SHORTEST_US < time_us < LONGEST_US):
            return f"{name}: got {shown(time_us)}; expected a time in microseconds over 0, or null for none"
    sides = ("time_us", "in_place_time_us") if row.get("out_of_place", True) else ("in_place_time_us",)
    if all(row.get(name) is None for name in sides):
        alone = "" if sides[1:] else ", for out_of_place is false"
        return f"expected {' or '.join(sides)}, in microseconds{alone}"
    return ""


def _mistaken(fields: Mapping[str, object], kinds: Mapping[str, FieldKind]) -> str:
    """The fault of the first of the fields that is not of its kind; empty where they all are."""
    for name, kind in kinds.items():
        if name in fields and not kind.has(fields[name]):
            return f"{name}: got {shown(fields[name])}; expected {kind.expected}"
    return ""


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
