"""The outcome of a test."""

from __future__ import annotations

from typing import NamedTuple

PASS, FAIL, SKIP = "pass", "fail", "skip"


class Outcome(NamedTuple):
    name: str
    status: str
    reason: str
    """Why it was skipped, or how it failed: tracebacks and what its ranks wrote."""
    ranks: int
    took_s: float
    gloo: bool
    """Whether one of its processes had a thread of Gloo's: a group of Gloo's, however it was made, has threads."""
