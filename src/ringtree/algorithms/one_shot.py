"""One shot: every rank sends all it has to all others at once. Least latency, most bytes.

Sums are taken in rank order 0, 1, … n-1, so the result is the same to the last bit on all ranks.

all_reduce: 1 round, (n-1)*S bytes

When: short vectors on a machine where every rank reaches every other at once.

Source: Shah and others: MSCCL++: rethinking GPU communication abstractions for cutting-edge AI applications, 2025
"""

from __future__ import annotations

import numpy as np

from ringtree.ir.schedule import Block, Buffer, Schedule, Transfers


def all_reduce(ranks: int) -> Schedule:
    """Whole inputs into outputs, rank 0's stored and the others' added as listed."""
    # Each source's targets begin behind it, so that not all ranks send to the same one first.
    source = np.repeat(np.arange(ranks), ranks)
    target = (source + 1 + np.tile(np.arange(ranks), ranks)) % ranks
    rows = Transfers.of(source, target, reduce=source > 0, source_buffer=Buffer.INPUT, target_buffer=Buffer.OUTPUT)
    return Schedule("one_shot", "all_reduce", ranks, 1, (Block(rows),))
