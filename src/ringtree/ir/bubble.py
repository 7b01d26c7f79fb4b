"""What a trace says of a pipeline: which micro-batch each rank computed when, and how long it had nothing to compute.

A pipeline's work are the COMPUTE events that are called "forward 3" or "backward 3", with whatever may follow: 3 is the
micro-batch.
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from ringtree.ir.trace import Event, Trace

_WORK = re.compile(r"(forward|backward) (\d+)\b")


def passes(trace: Trace) -> tuple[Trace, NDArray[np.bool_], NDArray[np.int64]]:
    """The events of the work; of each whether it is backward; and its micro-batch."""
    said = [_WORK.match(name) for name in trace.calls]
    is_work = np.array([match is not None for match in said])
    work = trace.take((trace.kind == Event.COMPUTE) & is_work[trace.call])
    backward = np.array([match is not None and match[1] == "backward" for match in said])
    number = np.array([int(match[2]) if match else -1 for match in said])
    return work, backward[work.call], number[work.call]


def bubble(trace: Trace) -> float:
    """What ranks waited, from the first work's begin to the last one's end, over what they computed; all ranks
    together. ValueError where there is no work."""
    work, _, _ = passes(trace)
    busy_s = float((work.end_s - work.start_s).sum())
    if not busy_s > 0:
        raise ValueError('the trace has no work of a pipeline: expected COMPUTE events such as "forward 3"')
    return trace.ranks * work.makespan_s / busy_s - 1
