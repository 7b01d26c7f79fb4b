"""All pairs: rows of a test matrix in which every two values of any two columns meet at least once."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations, product
from typing import Any

Row = dict[str, Any]


def pairwise(columns: Mapping[str, Sequence[Any]], legal: Callable[[Row], bool] = lambda row: True) -> list[Row]:
    """Greedy, the same rows every time. `legal` decides whether a whole row makes sense; pairs that no legal row
    has are left out."""
    random_ = random.Random(0)
    names = list(columns)
    every = [dict(zip(names, values, strict=True)) for values in product(*columns.values())]
    rows = [row for row in every if legal(row)]
    random_.shuffle(rows)
    missing = {pair for row in rows for pair in _pairs(row)}
    chosen = []
    while missing:
        sample = random_.sample(rows, min(len(rows), 60))
        best = max(sample, key=lambda row: len(missing.intersection(_pairs(row))))
        if missing.isdisjoint(_pairs(best)):  # no luck: take one that has what is missing
            best = next(row for row in rows if not missing.isdisjoint(_pairs(row)))
        missing.difference_update(_pairs(best))
        chosen.append(best)
    return chosen


def _pairs(row: Row) -> Iterator[tuple[tuple[str, Any], tuple[str, Any]]]:
    return combinations(row.items(), 2)
