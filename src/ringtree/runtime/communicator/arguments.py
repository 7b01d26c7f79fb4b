"""Arguments of calls that are no arrays: whole numbers and times. An error names the argument."""

from __future__ import annotations

import operator
from typing import Any


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
