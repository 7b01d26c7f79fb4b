"""The collective and the ranks of an nccl-tests table, deduced from its figures where its text has neither."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from math import ceil, floor
from statistics import median

from ringtree.ir.collective import COLLECTIVES
from ringtree.nccl.files.measured_rows import BLOCKS, NcclTestsRow, per_rank
from ringtree.nccl.files.row_numbers import named_lines
from ringtree.nccl.files.text_rows import ALGBW_ROUNDED, ALGBW_WITHIN

LARGEST_FACTOR = 0.9999
"""The largest (n - 1)/n: beyond it the figures determine no number."""
FACTOR_WITHIN = 0.03
"""The difference of busbw over algbw from 1 that rounding explains."""


def collective_of(rows: Sequence[NcclTestsRow]) -> str:
    """The collective, by redop, root and whether the vector is one of blocks. all_to_all prints all_gather's
    columns."""
    one, factor = rows[-1], _factor(rows)
    reduces = one.redop != "none"
    if one.root >= 0:
        return "reduce" if reduces else "broadcast"
    if _per_rank(rows) > BLOCKS:
        return "reduce_scatter" if reduces else "all_gather"
    if reduces:
        return "all_reduce" if factor == 0 or factor > 0.97 else "reduce_scatter"
    return "send_recv" if factor == 0 or factor > 0.97 else "all_gather"


def contradiction(name: str, row: NcclTestsRow, redop: bool, root: bool) -> str:
    """The columns of a row that cannot be of the collective, in words; "" where there are none. `redop` and `root`:
    whether the table has that column."""
    known = COLLECTIVES.get(name)
    reduces, rooted = (known.reduces, known.rooted) if known else (None, False)
    factor = _factor([row])
    there = []
    if redop and reduces is not None and reduces is not (row.redop != "none"):  # sendrecv_perf prints any
        there.append(f"redop {row.redop}")
    if (root or row.root >= 0) and rooted is not (row.root >= 0):
        there.append(f"root {row.root}")
    if (known is None or not known.blocked) and per_rank(row) > BLOCKS:
        there.append(f"count {row.count} of {row.nbytes} B")
    if known is None and factor and abs(factor - 1) > FACTOR_WITHIN:
        there.append(f"busbw {factor:.3g} times algbw")
    return " and ".join(there)


def ranks_of(name: str, rows: Sequence[NcclTestsRow]) -> tuple[int, range]:
    """The likeliest number of ranks, and all that fit, by nccl-tests' own definitions; 0 and none where the definitions
    determine none. busbw over algbw is 2(n - 1)/n or (n - 1)/n, and both are printed with few decimals."""
    shared = round(_per_rank(rows))
    blocks = name in ("all_gather", "reduce_scatter", "all_to_all")
    if blocks and shared > 1:
        return shared, range(shared, shared + 1)
    scale = 1 if blocks else 2
    factor = _factor(rows)
    if not (blocks or name == "all_reduce") or not 0.4 < factor / scale < LARGEST_FACTOR:
        return 0, range(0)
    likely = round(scale / (scale - factor))
    low, high = (min(bound / scale, LARGEST_FACTOR) for bound in _factor_range(rows))
    fewest, most = ceil(1 / (1 - low)), floor(1 / (1 - high))
    return likely, range(fewest, most + 1) if fewest <= likely <= most else range(likely, likely + 1)


def _per_rank(rows: Sequence[NcclTestsRow]) -> float:
    """Elements of the whole vector over the row's count: 1, or the number of ranks that share the vector."""
    big = [share for r in rows if (share := per_rank(r))]
    return median(big[-5:]) if big else 1.0


def _factor(rows: Sequence[NcclTestsRow]) -> float:
    """busbw over algbw; 0 where both are too small to divide."""
    big = [r for r in rows if r.algbw >= 0.5]
    return median(r.busbw / r.algbw for r in big[-5:]) if big else 0.0


def _factor_range(rows: Sequence[NcclTestsRow]) -> tuple[float, float]:
    """The least and the largest busbw over algbw from which the rows' figures may have been rounded."""
    big = [(r.algbw, r.busbw, _half_a_digit(r)) for r in rows if r.algbw >= 0.5]
    low = max((busbw - half) / (algbw + half) for algbw, busbw, half in big)
    return low, min((busbw + half) / (algbw - half) for algbw, busbw, half in big)


def _half_a_digit(row: NcclTestsRow) -> float:
    """The largest difference of the row's figures from those that were printed so."""
    last = min(int(Decimal(str(figure)).as_tuple().exponent) for figure in (row.algbw, row.busbw))
    return 0.5 * 10.0**last


def off_algbw(rows: Sequence[NcclTestsRow]) -> list[NcclTestsRow]:
    """Rows whose bytes over their time are not their algbw. An algbw of 0 is none."""
    found = []
    for row in rows:
        of_time = row.nbytes / row.time_s / 1e9
        if row.algbw and abs(of_time - row.algbw) > ALGBW_WITHIN * max(of_time, row.algbw) + ALGBW_ROUNDED:
            found.append(row)
    return found


def contradictions(rows: Sequence[NcclTestsRow]) -> Iterator[str]:
    """Yields notes on rows of `off_algbw`, and on those whose size is not that of one or several times their count."""
    if off := off_algbw(rows):
        yield f"time and algbw contradict each other, the time counts: {named_lines(_places(off))}"
    if off := [row for row in rows if not per_rank(row).is_integer()]:
        yield f"size and count contradict each other, the size counts: {named_lines(_places(off))}"


def _places(rows: Sequence[NcclTestsRow]) -> list[tuple[int, int]]:
    return [(row.line, row.nbytes) for row in rows]
