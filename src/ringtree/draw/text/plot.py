"""Curves as text, on logarithmic axes or with a linear one across."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from math import log

from ringtree.draw.text.lines import Line, TextSpan

MARKS = "abcdefghijklmnopqrstuvwxyz"
SERIES = 6
"""The number of colours."""
Curve = Sequence[tuple[float, float]]


def plot(
    curves: Mapping[str, Curve],
    x_label: Callable[[float], str],
    y_label: Callable[[float], str],
    width: int = 72,
    height: int = 16,
    linear_x: bool = False,
) -> list[Line]:
    """Each curve drawn with a letter, and a legend. Axes are logarithmic; where curves meet, the first is drawn. Empty
    for fewer than two different x."""
    points = [p for curve in curves.values() for p in curve]
    if len({x for x, _ in points}) < 2 or len(curves) > len(MARKS):
        return []
    axes = [
        kind(min(p[k] for p in points), max(p[k] for p in points), n)
        for k, n, kind in ((0, width, _LinearAxis if linear_x else _Axis), (1, height, _Axis))
    ]
    cells: dict[tuple[int, int], int] = {}
    for number, curve in enumerate(curves.values()):
        for cell in _drawn(sorted(curve), *axes):
            cells.setdefault(cell, number)
    labels = {height - 1: y_label(axes[1].high), 0: y_label(axes[1].low)}
    labels[height // 2] = y_label(axes[1].value(height // 2))
    margin = max(map(len, labels.values()))
    lines = [
        (TextSpan(f"{labels.get(y, ''):>{margin}} ┤" if y in labels else f"{'':>{margin}} │"), *_row(cells, y, width))
        for y in reversed(range(height))
    ]
    ends = x_label(axes[0].low), x_label(axes[0].value(width // 2)), x_label(axes[0].high)
    scale = ends[0] + ends[1].center(width - len(ends[0]) - len(ends[2])) + ends[2]
    lines += [(TextSpan(f"{'':>{margin}} └{'─' * width}"),), (TextSpan(f"{'':>{margin}}  {scale}"),)]
    legend = [(TextSpan(MARKS[n], role(n)), TextSpan(f" {name}   ")) for n, name in enumerate(curves)]
    return [*lines, (TextSpan(" " * (margin + 2)), *(span for pair in legend for span in pair))]


def role(number: int) -> str:
    """The style of a curve's pieces, by the curve's number."""
    return f"series {number % SERIES}"


class _Axis:
    def __init__(self, low: float, high: float, cells: int) -> None:
        self.low, self.high, self.cells = low, high if high > low else low * 2, cells

    def cell(self, value: float) -> int:
        return round(log(value / self.low) / log(self.high / self.low) * (self.cells - 1))

    def value(self, cell: int) -> float:
        return float(self.low * (self.high / self.low) ** (cell / (self.cells - 1)))


class _LinearAxis(_Axis):
    def cell(self, value: float) -> int:
        return round((value - self.low) / (self.high - self.low) * (self.cells - 1))

    def value(self, cell: int) -> float:
        return self.low + (self.high - self.low) * cell / (self.cells - 1)


def _drawn(curve: Curve, across: _Axis, up: _Axis) -> list[tuple[int, int]]:
    """The cells of a curve: a row for each column between its ends."""
    found = []
    for (x0, y0), (x1, y1) in pairwise(curve):
        first, last = across.cell(x0), across.cell(x1)
        low, high = up.cell(y0), up.cell(y1)
        for x in range(first, last + 1):
            share = (x - first) / (last - first) if last > first else 0.0
            found.append((x, round(low + (high - low) * share)))
    return found or [(across.cell(x), up.cell(y)) for x, y in curve]


def _row(cells: Mapping[tuple[int, int], int], y: int, width: int) -> list[TextSpan]:
    spans = []
    for x in range(width):
        number = cells.get((x, y))
        spans.append(TextSpan(" ") if number is None else TextSpan(MARKS[number], role(number)))
    return spans
