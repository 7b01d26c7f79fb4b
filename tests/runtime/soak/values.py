"""Data whose reductions are exact and known beforehand: rank i passes in i + 1 times one pattern of small integers."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ringtree.runtime.arrays import dtype_named

Values = NDArray[Any]

MOST = 400_000
"""Elements of the longest vector."""
MOST_OTHERS = 50_000
"""The same of the types that are not float32: their tables take memory in which nothing else is learned."""
OFFSETS = 4093
"""Offsets in the pattern where a vector may begin: two calls rarely have the same data."""
DTYPES = ("float32", "float64", "float16", "bfloat16", "int8", "uint8", "int32", "int64")
REDUCTIONS: dict[str, Any] = {"sum": np.add, "max": np.maximum, "min": np.minimum}
LARGEST = 5
"""Largest value of the pattern: the sum over 6 ranks is 21 times as much, exact even in int8 and bfloat16."""

_memcmp = ctypes.PyDLL(None).memcmp
_memcmp.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


def most(dtype: str) -> int:
    return MOST if dtype == "float32" else MOST_OTHERS


class Tables:
    """Every rank's data, and the reductions over the first ranks of a group, made once; ranks that are forked share
    them. A vector is a slice of a table, so that neither the data nor the answer of a call costs more than a look."""

    def __init__(self, ranks: int) -> None:
        pattern = np.random.default_rng(0).integers(-LARGEST, LARGEST + 1, MOST + OFFSETS)
        self._own: dict[tuple[str, int], Values] = {}
        self._reduced: dict[tuple[str, str, int], Values] = {}
        for dtype in DTYPES:
            some = pattern[: most(dtype) + OFFSETS]
            rows = [(k * some).astype(dtype_named(dtype)) for k in range(1, ranks + 1)]
            for k, row in enumerate(rows, 1):
                self._own[dtype, k - 1] = _kept(row)
                for op, ufunc in REDUCTIONS.items():
                    self._reduced[op, dtype, k] = _kept(ufunc.reduce(rows[:k], dtype=row.dtype))

    def of_rank(self, dtype: str, rank: int) -> Values:
        """The input of `rank` of a group."""
        return self._own[dtype, rank]

    def reduced(self, op: str, dtype: str, ranks: int) -> Values:
        """The reduction over the first `ranks` ranks of a group."""
        return self._reduced[op, dtype, ranks]


def _kept(table: Values) -> Values:
    table.flags.writeable = False
    return table


def differing(got: Values, want: Values) -> str:
    """Where two contiguous arrays of a type differ, in words; "" where every byte is the same."""
    if got.dtype != want.dtype or got.size != want.size:
        return f"{got.size} elements of {got.dtype}; expected {want.size} of {want.dtype}"
    if _memcmp(got.__array_interface__["data"][0], want.__array_interface__["data"][0], want.nbytes) == 0:
        return ""
    wrong = np.flatnonzero(got.reshape(-1) != want)
    first = int(wrong[0])
    return (
        f"{len(wrong)} of {got.size} elements differ, from [{first}] to [{int(wrong[-1])}]: "
        f"[{first}] is {got.reshape(-1)[first]}; expected {want[first]}"
    )
