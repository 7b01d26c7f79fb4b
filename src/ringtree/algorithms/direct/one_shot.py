"""One shot: every rank sends its input at once to all ranks that need it. Least latency; of sums, most bytes.

Each rank sends all it has before it waits, so ranks that share a core need one turn each. Sums are taken in rank order
0, 1, … n-1, so the result is the same to the last bit on all ranks. Of a prefix, rank 0 is needed by all others and the
last by none.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ringtree.algorithms.cost import S, cost, n
from ringtree.ir.schedule import Block, Buffer, Schedule, Transfers

SOURCE = "Shah and others: MSCCL++: rethinking GPU communication abstractions for cutting-edge AI applications, 2025"
WHEN = "short vectors on a machine where every rank reaches every other at once, and all_to_all of any length there."


@cost(1, (n - 1) * S)
def all_reduce(ranks: int) -> Schedule:
    """Returns one round in which every rank sends its vector to all ranks."""
    return _added("all_reduce", ranks, *_everyone(ranks))


@cost(1, (n - 1) / n * S)
def all_to_all(ranks: int) -> Schedule:
    """Returns one round in which every rank sends each rank, itself last, the chunk of n that is for it."""
    source, target = _everyone(ranks)
    rows = Transfers.of(source, target, target, to=source, source_buffer=Buffer.INPUT, target_buffer=Buffer.OUTPUT)
    return Schedule("one_shot", "all_to_all", ranks, ranks, (Block(rows),))


@cost(1, (n - 1) * S)
def barrier(ranks: int) -> Schedule:
    """Returns one round in which every rank sends a token to all others."""
    source, target = _everyone(ranks)
    others = source != target
    rows = Transfers.of(source[others], target[others], reduce=True)
    return Schedule("one_shot", "barrier", ranks, 1, (Block(rows),) if ranks > 1 else ())


@cost(1, (n - 1) * S)
def scan(ranks: int) -> Schedule:
    """Returns one round in which every rank sends its vector to itself and all later ranks."""
    return _added("scan", ranks, *np.triu_indices(ranks))


@cost(1, (n - 1) * S)
def exscan(ranks: int) -> Schedule:
    """Returns one round in which every rank sends its vector to all later ranks."""
    return _added("exscan", ranks, *np.triu_indices(ranks, 1))


def _everyone(ranks: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Returns each source with each target. A source's targets begin after it: not all ranks send to the same first."""
    source = np.repeat(np.arange(ranks), ranks)
    return source, (source + 1 + np.tile(np.arange(ranks), ranks)) % ranks


def _added(collective: str, ranks: int, source: NDArray[np.intp], target: NDArray[np.intp]) -> Schedule:
    """Whole inputs into outputs, rank 0's stored and the others' added as listed."""
    rows = Transfers.of(source, target, reduce=source > 0, source_buffer=Buffer.INPUT, target_buffer=Buffer.OUTPUT)
    return Schedule("one_shot", collective, ranks, 1, (Block(rows),) if len(rows) else ())
