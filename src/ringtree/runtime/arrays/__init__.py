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
    from ringtree.runtime.arrays.device import DeviceMemory, delivered, in_library
    from ringtree.runtime.arrays.jax_arrays import is_jax

__all__ = [
    "PAIR_DTYPES",
    "Array",
    "DeviceMemory",
    "blank",
    "delivered",
    "dtype_named",
    "dtype_of",
    "in_library",
    "is_jax",
    "new",
    "readable",
    "shape_of",
    "target",
    "writable",
]

_HOMES = {"device": ("DeviceMemory", "delivered", "in_library"), "jax_arrays": ("is_jax",)}
_ON_HOST = tuple(name for name in __all__ if not any(name in names for names in _HOMES.values()))

__getattr__ = late.names(__name__, {"array": _ON_HOST, **_HOMES})
