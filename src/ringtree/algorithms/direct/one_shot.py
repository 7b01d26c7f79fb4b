"""One shot: every rank sends its whole input at once to all ranks that need it. Least latency, most bytes.

Sums are taken in rank order 0, 1, … n-1, so the result is the same to the last bit on all ranks. Of a prefix, rank 0 is
needed by all others and the last by none.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ringtree.algorithms.cost import S, cost, n
from ringtree.ir.schedule import Block, Buffer, Schedule, Transfers

SOURCE = "Shah and others: MSCCL++: rethinking GPU communication abstractions for cutting-edge AI applications, 2025"
WHEN = "short vectors on a machine where every rank reaches every other at once."


@cost(1, (n - 1) * S)
def all_reduce(ranks: int) -> Schedule:
    """Returns one round in which every rank sends its vector to all ranks."""
    # Each source's targets begin after it, so that not all ranks send to the same one first.
    source = np.repeat(np.arange(ranks), ranks)
    return _added("all_reduce", ranks, source, (source + 1 + np.tile(np.arange(ranks), ranks)) % ranks)


@cost(1, (n - 1) * S)
def scan(ranks: int) -> Schedule:
    """Returns one round in which every rank sends its vector to itself and all later ranks."""
    return _added("scan", ranks, *np.triu_indices(ranks))


@cost(1, (n - 1) * S)
def exscan(ranks: int) -> Schedule:
    """Returns one round in which every rank sends its vector to all later ranks."""
    return _added("exscan", ranks, *np.triu_indices(ranks, 1))


def _added(collective: str, ranks: int, source: NDArray[np.intp], target: NDArray[np.intp]) -> Schedule:
    """Whole inputs into outputs, rank 0's stored and the others' added as listed."""
    rows = Transfers.of(source, target, reduce=source > 0, source_buffer=Buffer.INPUT, target_buffer=Buffer.OUTPUT)
    return Schedule("one_shot", collective, ranks, 1, (Block(rows),) if len(rows) else ())
