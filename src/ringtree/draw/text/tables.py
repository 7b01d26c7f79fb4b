"""Tables as text. nccl-tests' own layout, so that programs which read its logs read ours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

NCCL_TYPES = {
    "float32": "float", "float64": "double", "float16": "half", "float8_e4m3fn": "f8e4m3", "float8_e5m2": "f8e5m2",
}  # fmt: skip


class BandwidthCells(NamedTuple):
    """One side (out-of-place or in-place) of a line; `wrong` None where the results were not checked."""

    time_us: float
    algbw_GBps: float
    busbw_GBps: float
    wrong: int | None


def nccl_header() -> list[str]:
    """The three lines above nccl-tests' table, with two columns of ours at the end, where its readers look no more."""
    sides = f"{'out-of-place':^29}  {'in-place':^30}"
    names = ("time", "algbw", "busbw", "#wrong")
    units = ("(us)", "(GB/s)", "(GB/s)", "")
    return [
        _head(("", "", "", "", "")) + "  " + sides.rstrip(),
        _head(("size", "count", "type", "redop", "root")) + _side(names) * 2 + "  algorithm (program)",
        (_head(("(B)", "(elements)", "", "", "")) + _side(units) * 2).rstrip(),
    ]


def _head(words: tuple[str, ...]) -> str:
    size, count, dtype, op, root = words
    return f"# {size:>10}  {count:>12}  {dtype:>8}  {op:>6}  {root:>6}"


def _side(words: tuple[str, ...]) -> str:
    time, algbw, busbw, wrong = words
    return f"  {time:>7}  {algbw:>6}  {busbw:>6}  {wrong:>6}"


def nccl_row(
    nbytes: int,
    count: int,
    dtype: str,
    op: str,
    root: int,
    out_of_place: BandwidthCells | None,
    in_place: BandwidthCells | None,
    note: str = "",
) -> str:
    """One line of nccl-tests' table. A side that does not exist (a broadcast always fills its own array) is N/A."""
    head = f"{nbytes:>12}  {count:>12}  {NCCL_TYPES.get(dtype, dtype):>8}  {op:>6}  {root:>6}"
    return (head + _figures(out_of_place) + _figures(in_place) + (f"  {note}" if note else "")).rstrip()


def _figures(side: BandwidthCells | None) -> str:
    if side is None:
        return _side(("N/A",) * 4)
    wrong = "N/A" if side.wrong is None else f"{side.wrong:g}"
    return _side((_fit(side.time_us, 7), _fit(side.algbw_GBps, 6), _fit(side.busbw_GBps, 6), wrong))


def _fit(value: float, width: int) -> str:
    """A number with as many decimals, at most two, as the column has room for."""
    for decimals in (2, 1, 0):
        text = f"{value:.{decimals}f}"
        if len(text) <= width:
            return text
    return f"{value:.1e}"


def nccl_footer(wrong: int, busbw_GBps: float | Mapping[str, float]) -> list[str]:
    """The two closing lines; of several algorithms, whose averages are by name, a line more for each."""
    verdict = "FAILED" if wrong else "OK"
    averages = busbw_GBps if isinstance(busbw_GBps, Mapping) else {"": busbw_GBps}
    lines = [f"# {'Out of bounds values':<20} : {wrong} {verdict}"]
    for name, average in averages.items():
        lines.append(f"# {'Avg bus bandwidth':<20} : {average:g}" + f" ({name})" * (len(averages) > 1))
    return lines


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of the rows' cells, each column as wide as its widest and to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.rjust(w) for cell, w in zip(row, widths, strict=True)) for row in rows]
