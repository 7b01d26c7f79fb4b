"""The numbers of micro-batches into which a rank's rows can be divided. Needs no torch."""

from __future__ import annotations

from math import isqrt


def divisors(rows: int) -> list[int]:
    """The numbers that divide so many rows evenly, the fewest first."""
    low = [n for n in range(1, isqrt(rows) + 1) if rows % n == 0]
    return sorted({*low, *(rows // n for n in low)})


def fewest(rows: int, stages: int) -> int:
    """The fewest micro-batches of so many rows that keep all stages of a pipeline at work; of fewer rows than stages,
    one for each row."""
    return next((n for n in divisors(rows) if n >= stages), rows)
