"""Ranks that live across the cases of a sweep, and are asked for one row at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ringtree.bench.measure import Effort
from ringtree.bench.record import Row, measured
from ringtree.bench.sweep import Case
from ringtree.runtime.spawn import Pool

FORCE = "RINGTREE_ALGORITHM"
"""Forces all calls of the ranks. Forcing each call would keep it from the short way into the engine."""


def rows(table: Sequence[Case], effort: Effort, *, threads: bool = False) -> Iterator[Row]:
    """Measures the cases of one table, which all have one number of ranks and one algorithm."""
    if not table:
        return
    with _forced(table[0].algorithm), Pool(table[0].ranks, threads=threads, pin=True) as pool:
        for case in table:
            yield pool.run(measured, case, effort, threads)[0]


@contextmanager
def _forced(algorithm: str) -> Iterator[None]:
    """While the ranks are started, which inherit it: what every call is to use, as a user would say it."""
    before = os.environ.get(FORCE)
    if algorithm != "auto":
        os.environ[FORCE] = algorithm
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(FORCE, None)
        else:
            os.environ[FORCE] = before
