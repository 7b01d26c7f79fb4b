"""Lines of a table in nccl-tests' manner: columns of fixed widths, flush right, a head that begins with #."""

from __future__ import annotations

from collections.abc import Sequence


def head(names: Sequence[str], widths: Sequence[int]) -> str:
    """The columns' names."""
    return "#" + row(names, widths)[1:]


def row(cells: Sequence[object], widths: Sequence[int]) -> str:
    """A cell a width."""
    return "".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))


def microseconds(time_s: float) -> str:
    """Returns microseconds as text: 28.01, 143.2 or 12345."""
    time_us = time_s * 1e6
    return f"{time_us:.0f}" if time_us >= 10_000 else f"{time_us:.1f}" if time_us >= 100 else f"{time_us:.2f}"


def aligned(rows: Sequence[Sequence[str]], left: int) -> list[str]:
    """Columns as wide as they need: the first `left` flush left, the others flush right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            f"{text:<{w}}" if k < left else f"{text:>{w}}" for k, (text, w) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def spread(low_s: float, time_s: float, high_s: float) -> str:
    """Returns the ends of an interval by their distance from the time: `-8/+15%`."""
    return f"{100 * (low_s / time_s - 1):.0f}/+{100 * (high_s / time_s - 1):.0f}%"
