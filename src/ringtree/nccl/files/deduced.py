"""The collective and the ranks of an nccl-tests table, deduced from its figures where its text has neither."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from ringtree.nccl.files.measured_rows import BLOCKS, NcclTestsRow, per_rank


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


def ranks_of(name: str, rows: Sequence[NcclTestsRow]) -> int:
    """Ranks by nccl-tests' own definitions; 0 where the definitions determine no number."""
    shared, factor = round(_per_rank(rows)), _factor(rows)
    if name in ("all_gather", "reduce_scatter", "all_to_all") and shared > 1:
        return shared
    if name == "all_reduce" and 0.9 < factor < 1.9999:
        return round(2 / (2 - factor))
    if name in ("all_gather", "reduce_scatter", "all_to_all") and 0.4 < factor < 0.9999:
        return round(1 / (1 - factor))
    return 0


def _per_rank(rows: Sequence[NcclTestsRow]) -> float:
    """Elements of the whole vector over the row's count: 1, or the number of ranks that share the vector."""
    big = [share for r in rows if (share := per_rank(r))]
    return median(big[-5:]) if big else 1.0


def _factor(rows: Sequence[NcclTestsRow]) -> float:
    """busbw over algbw; 0 where both are too small to divide."""
    big = [r for r in rows if r.algbw >= 0.5]
    return median(r.busbw / r.algbw for r in big[-5:]) if big else 0.0
