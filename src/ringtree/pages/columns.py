"""Columns of numbers as a page has them: as small as they go, in base64."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import numpy as np
from numpy.typing import NDArray

INTEGERS = (np.int8, np.int16, np.int32)


def encode(array: NDArray[Any]) -> dict[str, str] | float | int:
    """{"type", "base64"} of the narrowest type that holds every value, little-endian; a plain number where all are
    equal. Integers beyond 32 bits become float64, exact up to 2**53; so does every float."""
    if array.dtype == np.bool_:
        array = array.astype(np.int8)
    if len(array) and bool(np.all(array == array[0])):
        first: float | int = array[0].item()
        return first
    narrow: np.dtype[Any] = np.dtype(np.float64)
    if array.dtype.kind in "iu":
        low, high = (int(array.min()), int(array.max())) if len(array) else (0, 0)
        fits = [t for t in INTEGERS if np.iinfo(t).min <= low and high <= np.iinfo(t).max]
        narrow = np.dtype(fits[0]) if fits else narrow
    data = np.ascontiguousarray(array, dtype=narrow.newbyteorder("<"))
    return {"type": narrow.name, "base64": b64encode(data.tobytes()).decode("ascii")}
