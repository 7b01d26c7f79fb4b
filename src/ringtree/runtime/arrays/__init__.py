"""Users' arrays as addresses, loaded by the first call that takes the slow path: a rank's start has none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ringtree import late

if TYPE_CHECKING:
    from ringtree.runtime.arrays.array import (
        PAIR_DTYPES,
        Array,
        blank,
        dtype_named,
        dtype_of,
        new,
        readable,
        shape_of,
        target,
        writable,
    )

__all__ = [
    "PAIR_DTYPES",
    "Array",
    "blank",
    "dtype_named",
    "dtype_of",
    "new",
    "readable",
    "shape_of",
    "target",
    "writable",
]

__getattr__ = late.names(__name__, {"array": tuple(__all__)})
