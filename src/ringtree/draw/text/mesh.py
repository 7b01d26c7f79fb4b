"""Ranks on a mesh with named axes, as text: their positions, and the groups along an axis."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import prod

from ringtree.draw.text.lines import Line, TextSpan

MOST = 8
"""Rows, columns and small tables that are written out; of more, the first ones and the last."""
MOST_TABLES = 4
"""The most small tables where each has more than four rows."""
GAP = "    "


def mesh(axes: Mapping[str, int], width: int = 100) -> list[Line]:
    """The ranks as tables: the last axis across, the one before it down, a table for each position on the others, side
    by side while there is room. `axes`: sizes, from the one whose neighbours lie farthest apart to that of adjacent
    ranks; those of 1 are left out."""
    used = {name: size for name, size in axes.items() if size > 1} or dict(list(axes.items())[-1:])
    *outer, down, across = [("", 1)] * (2 - min(len(used), 2)) + list(used.items())
    ranks = prod(used.values())
    each = down[1] * across[1]
    tables: list[list[Line]] = []
    for number in _few(ranks // each, MOST_TABLES if down[1] > 4 else MOST):
        if number is None:
            tables.append([(TextSpan("…"),)])
            continue
        at = _position(number, outer)
        tables.append(_table(at, down, across, number * each, len(str(ranks - 1))))
    return _side_by_side(tables, width)


def _position(number: int, axes: Sequence[tuple[str, int]]) -> str:
    positions = list(product(*(range(size) for _, size in axes)))[number]
    return ", ".join(f"{name} {position}" for (name, _), position in zip(axes, positions, strict=True))


def _table(title: str, down: tuple[str, int], across: tuple[str, int], first: int, digits: int) -> list[Line]:
    columns, rows = list(_few(across[1])), list(_few(down[1]))
    heads = ["…" if c is None else f"{across[0]} {c}" for c in columns]
    cell = max(digits, *map(len, heads)) + 2
    labels = ["…" if r is None else f"{down[0]} {r}" if down[0] else "" for r in rows]
    margin = max(map(len, [title, *labels]))
    lines: list[Line] = [
        (TextSpan(f"{title:<{margin}}", "head"), *(TextSpan(f"{head:>{cell}}", "faint") for head in heads))
    ]
    for label, row in zip(labels, rows, strict=True):
        cells = ["…" if row is None or c is None else str(first + row * across[1] + c) for c in columns]
        lines.append((TextSpan(f"{label:<{margin}}", "faint"), *(TextSpan(f"{text:>{cell}}") for text in cells)))
    return lines


def _side_by_side(tables: Sequence[list[Line]], width: int) -> list[Line]:
    lines: list[Line] = []
    row: list[list[Line]] = []
    for table in tables:
        if row and sum(_width(t) + len(GAP) for t in row) + _width(table) > width:
            lines += [*_joined(row), ()]
            row = []
        row.append(table)
    return [*lines, *_joined(row)]


def _joined(tables: Sequence[list[Line]]) -> Iterator[Line]:
    for y in range(max(map(len, tables))):
        spans: list[TextSpan] = []
        for table in tables:
            line = table[y] if y < len(table) else ()
            filled = sum(len(span.text) for span in line)
            spans += [*line, TextSpan(" " * (_width(table) - filled) + GAP)]
        yield tuple(spans)


def _width(table: Sequence[Line]) -> int:
    return max(sum(len(span.text) for span in line) for line in table)


def groups(members: Sequence[Sequence[int]], width: int = 80) -> str:
    """{0 2} {1 3}: all of them, or as many as have room."""
    longest = min(width, max(len(members), *map(len, members)))  # each member takes a column at least
    for most in range(max(3, longest), 2, -1):
        text = " ".join("…" if k is None else _group(members[k], most) for k in _few(len(members), most))
        if len(text) <= width:
            break
    return text


def _group(ranks: Sequence[int], most: int) -> str:
    return "{" + " ".join("…" if k is None else str(ranks[k]) for k in _few(len(ranks), most)) + "}"


def _few(count: int, most: int = MOST) -> Iterator[int | None]:
    """The positions of `count` things: all of them, or the first ones, a gap (None) and the last."""
    if count <= most:
        yield from range(count)
    else:
        yield from (*range(most - 2), None, count - 1)
