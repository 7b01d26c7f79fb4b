"""Ranges of different lengths, laid end to end in one array."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def places(count: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    """The place of each element in its own range: 0, 1, …, count[0] - 1, 0, 1, …, count[1] - 1, …"""
    ends = np.cumsum(count, dtype=np.int64)
    starts: NDArray[np.int64] = np.repeat(ends - count, count)
    return np.arange(len(starts)) - starts
