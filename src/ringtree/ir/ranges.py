"""Ranges of different lengths: laid end to end in one array, and those that overlap others."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
AnyInts = NDArray[np.integer[Any]]
NONE = np.iinfo(np.int64).max


def positions(count: AnyInts) -> Ints:
    """The position of each element in its own range: 0, 1, …, count[0] - 1, 0, 1, …, count[1] - 1, …"""
    ends = np.cumsum(count, dtype=np.int64)
    starts: Ints = np.repeat(ends - count, count)
    return np.arange(len(starts)) - starts


def elements(first: AnyInts, count: AnyInts) -> tuple[Ints, Ints]:
    """The elements first[k], first[k] + 1, … of each range: (its range, the element)."""
    which = np.repeat(np.arange(len(count)), count)
    return which, first[which] + positions(count)


def least_overlapping(begin: Ints, end: Ints, number: Ints, low: Ints, high: Ints) -> Ints:
    """The least `number` of the ranges [begin, end) that overlap each of the ranges [low, high); NONE where none does.
    All are at least 1 long. Cost: O(ranges, times the logarithm of the widest)."""
    points = np.sort(np.concatenate([begin, end, low, high]))
    points = points[np.diff(points, prepend=points[:1] - 1) > 0]  # np.unique hashes, which takes longer
    begin, end, low, high = (np.searchsorted(points, at) for at in (begin, end, low, high))
    widths = [np.log2(last - first).astype(np.int64) for first, last in ((begin, end), (low, high))]
    # [k, i]: over the stretches i … i + 2^k - 1 between neighbouring points; two such cover any range.
    least = np.full((1 + max(int(width.max(initial=0)) for width in widths), len(points)), NONE)
    for first in (begin, end - (1 << widths[0])):
        np.minimum.at(least, (widths[0], first), number)
    for k in range(len(least) - 1, 0, -1):  # from the ranges to each stretch in them
        half = 1 << k - 1
        np.minimum(least[k - 1], least[k], out=least[k - 1])
        np.minimum(least[k - 1, half:], least[k, :-half], out=least[k - 1, half:])
    for k in range(1, len(least)):  # and back to ranges
        half = 1 << k - 1
        least[k] = least[k - 1]
        np.minimum(least[k, :-half], least[k - 1, half:], out=least[k, :-half])
    found: Ints = np.minimum(least[widths[1], low], least[widths[1], high - (1 << widths[1])])
    return found
