"""Ranges of different lengths, laid end to end in one array."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
AnyInts = NDArray[np.integer[Any]]


def positions(count: AnyInts) -> Ints:
    """The position of each element in its own range: 0, 1, …, count[0] - 1, 0, 1, …, count[1] - 1, …"""
    ends = np.cumsum(count, dtype=np.int64)
    starts: Ints = np.repeat(ends - count, count)
    return np.arange(len(starts)) - starts


def elements(first: AnyInts, count: AnyInts) -> tuple[Ints, Ints]:
    """The elements first[k], first[k] + 1, … of each range: (its range, the element)."""
    which = np.repeat(np.arange(len(count)), count)
    return which, first[which] + positions(count)
