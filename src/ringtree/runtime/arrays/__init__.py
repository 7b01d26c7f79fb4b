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
    from ringtree.runtime.arrays.device import DeviceMemory, in_library

__all__ = [
    "PAIR_DTYPES",
    "Array",
    "DeviceMemory",
    "blank",
    "dtype_named",
    "dtype_of",
    "in_library",
    "new",
    "readable",
    "shape_of",
    "target",
    "writable",
]

_ON_DEVICE = ("DeviceMemory", "in_library")

__getattr__ = late.names(
    __name__, {"array": tuple(name for name in __all__ if name not in _ON_DEVICE), "device": _ON_DEVICE}
)
