"""A bandwidth that limits a collective, and its text."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, order=True, slots=True)
class Limit:
    """`GBps` in bytes of the collective a second."""

    GBps: float
    words: str
