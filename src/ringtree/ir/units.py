"""Times, sizes, counts and lists as people read them; and the check of a size that a call has."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from numbers import Real

TIMES = {"s": 1.0, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9}
"""Units of time in seconds, the largest first."""
RATES = {"TB/s": 1e12, "GB/s": 1e9, "MB/s": 1e6, "kB/s": 1e3, "B/s": 1.0}
LINE_RATES = {"Tb/s": 1.25e11, "Gb/s": 1.25e8, "Mb/s": 1.25e5}
"""The units in bytes a second."""
SIZES = {"TiB": 1024.0**4, "GiB": 1024.0**3, "MiB": 1024.0**2, "KiB": 1024.0, "B": 1.0}


def duration(seconds: float) -> str:
    """1.41 ms, 143 µs, 0 s."""
    return _in(seconds, TIMES, "ns") if seconds else "0 s"


def size(nbytes: float) -> str:
    """64 KiB, 1.41 MiB, 1000 B."""
    return _in(nbytes, SIZES, "B")


def bandwidth(Bps: float) -> str:
    """450 GB/s, 3.6 TB/s, 12.5 MB/s."""
    return _in(Bps, RATES, "B/s")


def line_rate(Bps: float) -> str:
    """A network port's rate in bits: 400 Gb/s of 50e9 bytes a second."""
    return _in(Bps, LINE_RATES, "Mb/s")


def count(number: int, what: str) -> str:
    """1 rank, 2 ranks."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def enumeration(words: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`, of at least one."""
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def time_unit(seconds: float) -> str:
    """Returns the unit that `duration` uses for a time."""
    return _unit(seconds, TIMES, "ns")


def check_byte_count(nbytes: float) -> None:
    """TypeError where it is no number, such as a size in words, which the command line alone reads; ValueError where it
    is below 0 or not finite."""
    if not isinstance(nbytes, Real) or isinstance(nbytes, bool):
        raise TypeError(f"nbytes is {nbytes!r:.60}; expected a number of bytes, such as 4 << 20 for 4 MiB")
    if not 0 <= nbytes < inf:
        raise ValueError(f"{nbytes} bytes; expected at least 0")


def _in(value: float, units: dict[str, float], least: str) -> str:
    unit = _unit(value, units, least)
    figure = value / units[unit]
    return f"{figure:.0f} {unit}" if abs(figure) >= 999.5 else f"{figure:.3g} {unit}"


def _unit(value: float, units: dict[str, float], least: str) -> str:
    """The largest unit of which the value, rounded to three figures, is at least one."""
    return next((unit for unit, one in units.items() if abs(value) >= one * (1 - 5e-4)), least)
