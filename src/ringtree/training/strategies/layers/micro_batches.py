"""The numbers of micro-batches in which a rank's rows can go through a pipeline. Needs no torch."""

from __future__ import annotations

from math import isqrt


def divisors(rows: int) -> list[int]:
    """The numbers that divide so many rows evenly, the fewest first."""
    low = [n for n in range(1, isqrt(rows) + 1) if rows % n == 0]
    return sorted({*low, *(rows // n for n in low)})


def fewest_micro_batches(rows: int, ranks: int, schedule: str) -> int:
    """The fewest micro-batches of a rank's rows that keep so many ranks of a pipeline at work, and that the schedule
    takes; of fewer rows than ranks, one for each row."""
    evenly = (n for n in divisors(rows) if schedule != "interleaved" or has_even_rounds(n, ranks))
    return next((n for n in evenly if n >= ranks), rows)


def has_even_rounds(micro_batches: int, ranks: int) -> bool:
    """Whether the interleaved schedule can divide them into rounds of about as many as there are ranks."""
    return micro_batches % _rounds(micro_batches, ranks) == 0


def round_length(micro_batches: int, ranks: int) -> int:
    """The micro-batches of such a round, which go through a rank's stage before its next one has work."""
    return micro_batches // _rounds(micro_batches, ranks)


def _rounds(micro_batches: int, ranks: int) -> int:
    return max(1, micro_batches // ranks)
