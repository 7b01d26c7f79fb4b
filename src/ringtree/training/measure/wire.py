"""Bytes on the wire: the engine's own counters, of all groups of this process together."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import torch.distributed as dist

from ringtree.ir.trace import Trace
from ringtree.runtime.communicator.communicator import Communicator
from ringtree.torch_backend import communicator, communicators


def received_nbytes() -> int:
    """Bytes that this rank received from others in collectives and messages of every living group, since it was
    made."""
    return sum(int(c.counters()[:, 0].sum()) for c in communicators()) if dist.is_initialized() else 0


def meet() -> None:
    """Waits for all ranks, in a group that is not counted: it separates their earlier messages from their later
    ones."""
    if dist.is_initialized():
        _apart(communicator()).barrier()


def without_barriers(trace: Trace) -> Trace:
    """The trace without the barriers: of all calls of a training, only `meet` is one."""
    barriers = np.array([call.startswith("barrier(") for call in trace.calls])
    rest = trace.take(~barriers[trace.call])
    first_s = rest.start_s.min(initial=np.inf) if len(rest) else 0.0
    return replace(rest, start_s=rest.start_s - first_s, end_s=rest.end_s - first_s)


@cache
def _apart(whole: Communicator) -> Communicator:
    return whole.duplicate()
