"""A pipeline's work as a timeline in text: a row a rank, time runs to the right, and in each column stands the
micro-batch that the rank was at.

    rank 0  0123....₀₀₁₁₂₂₃₃
    rank 1  .0123..₀₀₁₁₂₂₃₃.

Forward `0123`, backward `₀₁₂₃`, each its number's last digit; nothing to do: `.`. A pipeline's work are the COMPUTE
events whose names begin with "forward 3" or "backward 3": 3 is the micro-batch.
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from ringtree.ir import units
from ringtree.ir.trace import Event, Trace

FORWARD, BACKWARD, IDLE = "0123456789", "₀₁₂₃₄₅₆₇₈₉", "."
_WORK = re.compile(r"(forward|backward) (\d+)\b")


def _passes(trace: Trace) -> tuple[Trace, NDArray[np.bool_], NDArray[np.int64]]:
    """The events of the work; of each whether it is backward; and its micro-batch."""
    parts = [_WORK.match(name) for name in trace.calls]
    is_work = np.array([match is not None for match in parts])
    work = trace.take((trace.kind == Event.COMPUTE) & is_work[trace.call])
    backward = np.array([match is not None and match[1] == "backward" for match in parts])
    number = np.array([int(match[2]) if match else -1 for match in parts])
    return work, backward[work.call], number[work.call]


def bubble(trace: Trace) -> float:
    """The time that ranks waited, from the first work's begin to the last one's end, over the time that they computed,
    of all ranks together. ValueError: if the trace has no work."""
    work, _, _ = _passes(trace)
    busy_s = float((work.end_s - work.start_s).sum())
    if not busy_s > 0:
        raise ValueError('the trace has no work of a pipeline: expected COMPUTE events such as "forward 3"')
    return trace.ranks * work.makespan_s / busy_s - 1


def has_pipeline(trace: Trace) -> bool:
    """Returns whether the trace has compute events of a pipeline."""
    return bool(np.any(trace.kind == Event.COMPUTE)) and len(_passes(trace)[0]) > 0


def pipeline(trace: Trace, width: int = 100) -> str:
    """The work drawn, no row longer than `width` (at least 40), under a line with the bubble."""
    work, _, number = _passes(trace)
    margin = len(f"rank {trace.ranks - 1}") + 2
    cells = max(width, 40) - margin
    rows = [f"{f'rank {rank}':<{margin}}{row}" for rank, row in enumerate(_rows(trace, cells))]
    parts = (
        units.count(trace.ranks, "rank"),
        f"{number.max() + 1} micro-batch{'es' * bool(number.max())}",
        units.duration(work.makespan_s),
        f"a bubble of {bubble(trace):.1%} of what is computed",
    )
    return "\n".join([f"pipeline: {', '.join(parts)}", *rows])


def _rows(trace: Trace, cells: int) -> list[str]:
    """Rows of cells: each shows the work that took the most of it; nothing where that is less than half."""
    work, backward, number = _passes(trace)
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
