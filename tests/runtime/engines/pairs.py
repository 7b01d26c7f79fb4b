"""All pairs: rows of a test matrix in which every two values of any two columns meet at least once."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations, product
from typing import Any

Row = dict[str, Any]
DRAWN = 60
"""Rows of which the one with the most pairs that are missing is chosen."""


def pairwise(columns: Mapping[str, Sequence[Any]], legal: Callable[[Row], bool] = lambda row: True) -> list[Row]:
    """Greedy, the same rows every time. `legal` decides whether a whole row makes sense; pairs that no legal row
    has are left out."""
    random_ = random.Random(0)
    values = [[(name, value) for value in of] for name, of in columns.items()]
    missing = dict.fromkeys(pair for a, b in combinations(values, 2) for pair in product(a, b))
    chosen = []
    while missing:
        wanted = next(iter(missing))
        free = [[held] if (held := _held(wanted, of)) else of for of in values]
        rows = [row for _ in range(DRAWN) if legal(row := dict(map(random_.choice, free)))]
        if not rows:  # no luck: take any that has what is missing
            rows = [next(filter(legal, map(dict, product(*free))), {})]
        best = max(rows, key=lambda row: sum(pair in missing for pair in _pairs(row)))
        for pair in (wanted, *_pairs(best)):
            missing.pop(pair, None)
        if best:
            chosen.append(best)
    return chosen


def _held(pair: tuple[tuple[str, Any], ...], column: Sequence[tuple[str, Any]]) -> tuple[str, Any] | None:
    """The pair's entry of that column."""
    return next((entry for entry in pair if entry[0] == column[0][0]), None)


def _pairs(row: Row) -> Iterator[tuple[tuple[str, Any], tuple[str, Any]]]:
    return combinations(row.items(), 2)
