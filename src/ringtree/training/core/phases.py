"""Which part of a step it is that this rank is in: forward, backward, update. A trace of the step has them as spans."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from time import time_ns

import torch.distributed as dist

from ringtree.torch_backend import communicator

LATEST: deque[tuple[str, int, int]] = deque(maxlen=4096)
"""Phases that have ended: name, and when it began and ended, in ns as time.time_ns has it."""


@contextmanager
def phase(name: str, work: str = "") -> Iterator[None]:
    """While its block runs. `work`: what a trace calls it, if not by the phase's name."""
    begun_ns = time_ns()
    try:
        with communicator().span(work or name) if dist.is_initialized() else nullcontext():
            yield
    finally:
        LATEST.append((name, begun_ns, time_ns()))


def phase_at(moment_ns: int) -> str:
    """That of a moment, the innermost; "" for none."""
    at = [(begun, name) for name, begun, ended in LATEST if begun <= moment_ns <= ended]
    return max(at)[1] if at else ""
