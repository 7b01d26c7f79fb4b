"""The numbers of micro-batches into which a rank's rows can be divided. Needs no torch."""

from __future__ import annotations

from math import isqrt


def divisors(rows: int) -> list[int]:
    """The numbers that divide so many rows evenly, the fewest first."""
    low = [n for n in range(1, isqrt(rows) + 1) if rows % n == 0]
    return sorted({*low, *(rows // n for n in low)})
