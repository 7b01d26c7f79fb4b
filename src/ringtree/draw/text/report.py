"""Bench records: a line an algorithm or a library, and where one line crosses another. As text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, pairwise
from typing import Any, NamedTuple

import numpy as np

from ringtree.ir import units
from ringtree.ir.collective import collective as find_collective

Record = Mapping[str, Any]
"""As bench.record reads it: machine, effort, rows."""

PREDICTED = "priced, not measured"
"""The `source` of the machine in a record of predicted times, as `ringtree sweep` writes it."""
STATISTICS = ("time_us", "time_min_us", "in_place_time_us", "in_place_time_min_us")


class Point(NamedTuple):
    """One case. `what`: collective, type, operation; `times_us` by STATISTICS, None where there is no such
    figure; `bus_factor` times nbytes over the time is the bus bandwidth."""

    line: int
    what: tuple[str, str, str]
    ranks: int
    nbytes: int
    times_us: tuple[float | None, ...]
    bus_factor: float
    row: Mapping[str, Any]


class Crossing(NamedTuple):
    """The point at which line `below` stops being below line `above`."""

    below: int
    above: int
    x: float


Curve = Sequence[tuple[float, float]]
"""(x, time) by rising x, both over 0; between its points a straight line on log axes."""


def all_predicted(records: Mapping[str, Record]) -> bool:
    """Whether all times of the records are predicted, and none measured."""
    return all(map(_is_predicted, records.values()))


def _is_predicted(record: Record) -> bool:
    return bool(record["machine"].get("source") == PREDICTED)


def points(records: Mapping[str, Record]) -> tuple[list[str], list[Point]]:
    """(the lines' names, every row of the records as a point of one of them). A record's rows of one library are a line
    an algorithm; but one line where no case was measured by two algorithms, because it was then chosen by size. Lines
    of predicted times say so where others are measured."""
    mixed = not all_predicted(records)
    keyed: dict[tuple[str, str], list[tuple[str, Mapping[str, Any]]]] = {}
    for name, record in records.items():
        families: dict[str, list[Mapping[str, Any]]] = {}
        for row in record["rows"]:
            families.setdefault(row.get("library", "ringtree") + " threads" * row.get("threads", False), []).append(row)
        for family, rows in families.items():
            for row in rows:
                algorithm = "" if _chosen(rows) else row.get("algorithm", "")
                label = _label(family, algorithm) + " (predicted)" * (mixed and _is_predicted(record))
                keyed.setdefault((label, name), []).append((name, row))
    labels = [label for label, _ in keyed]
    names = [label if labels.count(label) == 1 else f"{label} · {name}" for label, name in keyed]
    return names, [_point(line, row) for line, rows in enumerate(keyed.values()) for _, row in rows]


def _chosen(rows: Sequence[Mapping[str, Any]]) -> bool:
    """Whether several algorithms share these rows, but no case."""
    cases = {(*_case(r), r.get("algorithm", "")) for r in rows}
    return len({c[-1] for c in cases}) > 1 and len({c[:-1] for c in cases}) == len(cases)


def _case(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row[key] for key in ("collective", "dtype", "op", "ranks", "nbytes"))


def _label(family: str, algorithm: str) -> str:
    """ringtree's algorithms go by their own names."""
    if not algorithm:
        return family
    return (algorithm + family.removeprefix("ringtree")) if family.startswith("ringtree") else f"{family} {algorithm}"


def _point(line: int, row: Mapping[str, Any]) -> Point:
    apart = row.get("out_of_place", True)
    times = tuple(
        float(row[key]) if row.get(key) and (apart or key.startswith("in_place")) else None for key in STATISTICS
    )
    what = (row["collective"], row["dtype"], row["op"])
    factor = find_collective(row["collective"]).bus_factor(row["ranks"])
    return Point(line, what, row["ranks"], row["nbytes"], times, factor, row)


def curves(chosen: Sequence[Point], statistic: int, x: str) -> dict[int, Curve]:
    """Each line through the points, over the field that `x` names: "nbytes" or "ranks". What log axes do not show, a
    size of 0 or no figure, is left out."""
    found: dict[int, dict[float, float]] = {}
    for p in chosen:
        at, time = getattr(p, x), p.times_us[statistic]
        if time is not None and at > 0:
            found.setdefault(p.line, {})[at] = time
    return {line: sorted(curve.items()) for line, curve in found.items()}


def crossings(lines: Mapping[int, Curve]) -> list[Crossing]:
    """The points at which any two lines cross, by rising x. To touch is not to cross."""
    logs = {line: np.log(np.array(curve, dtype=np.float64)).T for line, curve in lines.items()}
    found = [
        Crossing(*((a, b) if first < 0 else (b, a)), float(np.exp(at)))
        for a, b in combinations(logs, 2)
        for at, first in _zeros(logs[a], logs[b])
    ]
    return sorted(found, key=lambda c: c.x)


def _zeros(a: Any, b: Any) -> Iterator[tuple[float, float]]:
    """(where a - b changes its sign, its value before) for two polylines."""
    low, high = max(a[0, 0], b[0, 0]), min(a[0, -1], b[0, -1])
    at = np.array([x for x in np.union1d(a[0], b[0]) if low <= x <= high])
    gap = np.interp(at, *a) - np.interp(at, *b)
    sides = np.flatnonzero(gap)
    for i, j in pairwise(sides):
        if gap[i] * gap[j] < 0:
            yield (at[i] - gap[i] * (at[j] - at[i]) / (gap[j] - gap[i]) if j == i + 1 else at[i + 1]), gap[i]


def best_changes(lines: Mapping[int, Curve]) -> list[Crossing]:
    """The crossings below which no line lies: from there on another is the best."""
    return [
        c
        for c in crossings(lines)
        if all(_at(curve, c.x) >= _at(lines[c.below], c.x) * (1 - 1e-9) for curve in lines.values())
    ]


def _at(curve: Curve, x: float) -> float:
    """The line's height there; infinite where it does not reach."""
    if not curve[0][0] <= x <= curve[-1][0]:
        return float("inf")
    at, height = np.log(np.array(curve, dtype=np.float64)).T
    return float(np.exp(np.interp(np.log(x), at, height)))


def report_text(records: Mapping[str, Record]) -> str:
    """The report as text, for every collective and number of ranks: the best line at each size, how much slower the
    next is, and where the best changes."""
    names, all_points = points(records)
    predicted = all_predicted(records)
    groups: dict[tuple[tuple[str, str, str], int], list[Point]] = {}
    for p in all_points:
        groups.setdefault((p.what, p.ranks), []).append(p)
    return "\n\n".join(
        "\n".join(_table(names, what, ranks, group, predicted)) for (what, ranks), group in groups.items()
    )


def _table(
    names: Sequence[str], what: tuple[str, str, str], ranks: int, group: Sequence[Point], predicted: bool
) -> Iterator[str]:
    statistic = 0 if all(p.times_us[0] for p in group) else 2
    if predicted:
        yield f"{what[0]}, {units.count(ranks, 'rank')}, predicted, not measured"
    else:
        yield f"{' '.join(what)}, {units.count(ranks, 'rank')}, {'in place' if statistic else 'out of place'}, median"
    yield f"{'size':>10}  {'time us':>12}  {'busbw GB/s':>11}  {'best':<22}  next"
    for nbytes in sorted({p.nbytes for p in group}):
        there = [(time, p) for p in group if p.nbytes == nbytes and (time := p.times_us[statistic])]
        there.sort(key=lambda pair: pair[0])
        if not there:
            continue
        time, p = there[0]
        after = f"{names[there[1][1].line]}, {there[1][0] / time:.2f} times the time" if there[1:] else "-"
        busbw = nbytes * p.bus_factor / time / 1e3
        yield f"{units.size(nbytes):>10}  {time:>12.2f}  {busbw:>11.3f}  {_best(names[p.line], p.row):<22}  {after}"
    for c in best_changes(curves(group, statistic, "nbytes")):
        yield f"from about {units.size(c.x)} on, {names[c.above]} is faster than {names[c.below]}"


def _best(name: str, row: Mapping[str, Any]) -> str:
    """The line's name, with the algorithm where the name does not contain it."""
    algorithm = row.get("algorithm", "")
    return name if not algorithm or algorithm in name else f"{name} ({algorithm})"
