"""Ranks that live across the cases of a table, and are asked for one row at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ringtree.bench.measure import Effort
from ringtree.bench.record import Row, measured
from ringtree.bench.sweep import Case
from ringtree.bench.traced import traced
from ringtree.ir.trace import Trace
from ringtree.runtime.launch.spawn import Pool


def rows(
    table: Sequence[Case], effort: Effort, *, threads: bool = False, traces: list[Trace] | None = None
) -> Iterator[Row]:
    """Measures the cases of one table, which all have one number of ranks. `traces` gets a trace of one more call of
    each, made after it was measured."""
    if not table:
        return
    with Pool(table[0].ranks, threads=threads, pin=True) as pool:
        for case in table:
            yield pool.run(measured, case, effort, threads)[0]
            if traces is not None:
                traces.append(pool.run(traced, case, effort)[0])
