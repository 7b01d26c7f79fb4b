"""Bench records as a page: time and bus bandwidth over size and over ranks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ringtree.draw.text.report import STATISTICS, Crossing, Point, Record, all_predicted, crossings, curves, points
from ringtree.pages import assemble, encode

MOST_ROWS = 20_000
MACHINE = ("cpu", "cores", "caches", "numa_nodes", "memory_bytes")
"""Keys by which two machines differ; the rest of a record's `machine` is versions."""


def report_page(records: Mapping[str, Record], command: str = "bench") -> str:
    """The page that shows these records, by distinct names. `command`: what they are from. ValueError where
    they are too many rows."""
    return assemble(f"ringtree {command}: {', '.join(records)}", ["report"], {"report": report_data(records)})


def report_data(records: Mapping[str, Record]) -> dict[str, Any]:
    """The input of the report's view, as JSON."""
    rows = sum(len(record["rows"]) for record in records.values())
    if rows > MOST_ROWS:
        raise ValueError(f"{rows:,} rows: too many for a page: expected at most {MOST_ROWS:,}")
    names, found = points(records)
    whats = list(dict.fromkeys(p.what for p in found))
    machines = [record["machine"] for record in records.values()]
    return {
        "records": [
            {"name": name, "machine": dict(record["machine"]), "effort": dict(record.get("effort", {}))}
            for name, record in records.items()
        ],
        "predicted": all_predicted(records),
        "differing": [key for key in MACHINE if any(m.get(key) != machines[0].get(key) for m in machines)],
        "whats": whats,
        "lines": names,
        "points": _points(found, whats),
        "crossings": _crossings(found, whats),
    }


def _points(found: Sequence[Point], whats: Sequence[tuple[str, str, str]]) -> dict[str, Any]:
    """The points as columns. A missing time is 0, a missing count of wrong elements -1."""
    columns: dict[str, Any] = {
        "line": [p.line for p in found],
        "what": [whats.index(p.what) for p in found],
        "ranks": [p.ranks for p in found],
        "nbytes": [p.nbytes for p in found],
    }
    numbers = {name: encode(np.array(column, dtype=np.int64)) for name, column in columns.items()}
    wrong = [[-1 if p.row.get(key) is None else p.row[key] for p in found] for key in ("wrong", "in_place_wrong")]
    times = [encode(np.array([p.times_us[s] or 0.0 for p in found])) for s in range(len(STATISTICS))]
    return {
        "count": len(found),
        **numbers,
        "timesUs": times,
        "wrong": [encode(np.array(column, dtype=np.int64)) for column in wrong],
        "busFactor": encode(np.array([p.bus_factor for p in found])),
        "algorithm": [p.row.get("algorithm", "") for p in found],
        "program": [p.row.get("program", "") for p in found],
    }


def _crossings(found: Sequence[Point], whats: Sequence[tuple[str, str, str]]) -> dict[str, Any]:
    """Every crossing of two lines as columns: in which of STATISTICS, over the sizes (axis 0) at a number of ranks or
    over the ranks (axis 1) at a size."""
    rows = list(_located(found, whats))
    names = ("statistic", "what", "axis", "at", "below", "above")
    columns = {name: encode(np.array([row[i] for row, _ in rows], dtype=np.int64)) for i, name in enumerate(names)}
    return {"count": len(rows), **columns, "x": encode(np.array([c.x for _, c in rows], dtype=np.float64))}


def _located(
    found: Sequence[Point], whats: Sequence[tuple[str, str, str]]
) -> Iterator[tuple[tuple[int, ...], Crossing]]:
    for axis, (x, fixed) in enumerate((("nbytes", "ranks"), ("ranks", "nbytes"))):
        groups: dict[tuple[int, int], list[Point]] = {}
        for p in found:
            groups.setdefault((whats.index(p.what), getattr(p, fixed)), []).append(p)
        for (what, at), group in groups.items():
            for statistic in range(len(STATISTICS)):
                for c in crossings(curves(group, statistic, x)):
                    yield (statistic, what, axis, at, c.below, c.above), c
