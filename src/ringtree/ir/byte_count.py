"""A number of bytes that a caller names: the check that what is priced, simulated or searched for begins with."""

from __future__ import annotations

from math import inf
from numbers import Real


def check_byte_count(nbytes: float) -> None:
    """TypeError where it is no number, such as a size in words, which the command line alone reads; ValueError where it
    is below 0 or not finite."""
    if not isinstance(nbytes, Real) or isinstance(nbytes, bool):
        raise TypeError(f"nbytes is {nbytes!r:.60}; expected a number of bytes, such as 4 << 20 for 4 MiB")
    if not 0 <= nbytes < inf:
        raise ValueError(f"{nbytes} bytes; expected at least 0")
