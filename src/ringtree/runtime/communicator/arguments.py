"""Arguments of calls that are no arrays: whole numbers and times. An error names the argument."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def whole(value: Any, what: str) -> int:
    """A whole number of any kind (Python's, numpy's); TypeError for anything else, a truth value included."""
    if isinstance(value, bool):
        raise TypeError(f"{what} is {value}; expected a whole number")
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{what} is {described(value)}; expected a whole number") from None


def int64(value: Any, what: str) -> int:
    """A whole number of any kind as `whole` takes it. ValueError: if 64 bits are too few."""
    number = whole(value, what)
    if not -1 << 63 <= number < 1 << 63:
        raise ValueError(f"{what} is {number}; expected 64 bits at most")
    return number


def listed(values: Any, what: str, of: str) -> list[Any]:
    """The values of a list, or of an iterator, which can be gone through once. TypeError for anything else."""
    try:
        return list(values)
    except TypeError:
        raise TypeError(f"{what} is {described(values)}; expected a list of {of}") from None


def numbers(values: Any, what: str) -> NDArray[np.int64]:
    """A list of counts: whole numbers from 0 (else TypeError, ValueError)."""
    found = np.asarray(values)
    if found.ndim != 1:
        raise ValueError(f"{what} has shape {found.shape}; expected a list of whole numbers")
    if found.dtype.kind not in "iu" and found.size:
        raise TypeError(f"{what} is of {found.dtype}; expected whole numbers")
    if found.size and (found.min() < 0 or found.max() >= 1 << 63):
        raise ValueError(f"{what} is {found.tolist()}; expected numbers from 0, of less than 64 bits")
    return found.astype(np.int64)


def seconds(timeout: Any) -> float:
    """A time to wait for at most; what is below 0 has passed."""
    try:
        limit_s = float(timeout)
    except (TypeError, ValueError):
        raise TypeError(f"timeout is {described(timeout)}; expected seconds") from None
    if limit_s != limit_s:
        raise ValueError(f"timeout is {timeout}; expected seconds")
    return max(limit_s, 0.0)


def described(x: Any) -> str:
    """The type of `x`, with its article."""
    name = type(x).__name__
    return "None" if x is None else f"an {name}" if name[0] in "aeiou" else f"a {name}"
