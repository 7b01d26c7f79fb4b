"""One shot: whoever has something sends all of it to whoever needs it, at once. Least latency, most bytes.

Sums are taken in rank order 0, 1, … n-1, so the result is the same to the last bit on all ranks.

all_reduce: 1 round, (n-1)*S bytes
broadcast: 1 round, (n-1)*S bytes
reduce: 1 round, S bytes

Source: Shah and others: MSCCL++: rethinking GPU communication abstractions for cutting-edge AI applications, 2025
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ringtree.ir.schedule import Block, Buffer, Schedule, Transfers


def all_reduce(ranks: int) -> Schedule:
    # Each source's targets begin behind it, so that not all ranks send to the same one first.
    source = np.repeat(np.arange(ranks), ranks)
    target = (source + 1 + np.tile(np.arange(ranks), ranks)) % ranks
    rows = _add_in_rank_order(source, target)
    return Schedule("one_shot", "all_reduce", ranks, 1, (Block(rows),))


def broadcast(ranks: int, root: int) -> Schedule:
    others = (root + np.arange(1, ranks)) % ranks
    blocks = (Block(Transfers.of(root, others)),) if ranks > 1 else ()
    return Schedule("one_shot", "broadcast", ranks, 1, blocks, root)


def reduce(ranks: int, root: int) -> Schedule:
    rows = _add_in_rank_order(np.arange(ranks), np.full(ranks, root))
    return Schedule("one_shot", "reduce", ranks, 1, (Block(rows),), root)


def _add_in_rank_order(source: NDArray[np.int64], target: NDArray[np.int64]) -> Transfers:
    """Whole inputs into outputs, rank 0's stored and the others' added as listed."""
    return Transfers.of(source, target, reduce=source > 0, source_buffer=Buffer.INPUT, target_buffer=Buffer.OUTPUT)
