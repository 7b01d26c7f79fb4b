"""A pipeline's work as a timeline in text: a row a rank, time runs to the right, and in each column stands the
micro-batch that the rank was at.

    rank 0  0123....₀₀₁₁₂₂₃₃
    rank 1  .0123..₀₀₁₁₂₂₃₃.

Forward `0123`, backward `₀₁₂₃`, each its number's last digit; nothing to do: `.`.
"""

from __future__ import annotations

import numpy as np

from ringtree.ir import units
from ringtree.ir.bubble import bubble, passes
from ringtree.ir.trace import Event, Trace

FORWARD, BACKWARD, IDLE = "0123456789", "₀₁₂₃₄₅₆₇₈₉", "."


def has_pipeline(trace: Trace) -> bool:
    return bool(np.any(trace.kind == Event.COMPUTE)) and len(passes(trace)[0]) > 0


def pipeline(trace: Trace, width: int = 100) -> str:
    """The work drawn, no row longer than `width` (at least 40), under a line that says what the bubble is."""
    work, _, number = passes(trace)
    margin = len(f"rank {trace.ranks - 1}") + 2
    cells = max(width, 40) - margin
    rows = [f"{f'rank {rank}':<{margin}}{row}" for rank, row in enumerate(_rows(trace, cells))]
    said = (
        units.count(trace.ranks, "rank"),
        f"{number.max() + 1} micro-batch{'es' * bool(number.max())}",
        units.duration(work.makespan_s),
        f"a bubble of {bubble(trace):.1%} of what is computed",
    )
    return "\n".join([f"pipeline: {', '.join(said)}", *rows])


def _rows(trace: Trace, cells: int) -> list[str]:
    """In each cell what took the most of it; nothing where that is less than half."""
    work, backward, number = passes(trace)
    zero_s, cell_s = work.start_s.min(), work.makespan_s / cells
    most, glyphs = np.full((trace.ranks, cells), 0.5), np.full((trace.ranks, cells), IDLE)
    for k in range(len(work)):
        start, end = ((t[k] - zero_s) / cell_s for t in (work.start_s, work.end_s))
        at = np.arange(int(start), min(int(np.ceil(end)), cells))
        share = np.minimum(at + 1, end) - np.maximum(at, start)
        wins = at[share > most[work.rank[k], at]]
        most[work.rank[k], wins] = share[np.isin(at, wins)]
        glyphs[work.rank[k], wins] = (BACKWARD if backward[k] else FORWARD)[number[k] % 10]
    return ["".join(row) for row in glyphs]
