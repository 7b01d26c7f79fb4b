"""Two shot: every rank adds up its own block of all inputs, then sends it to all. Fewest bytes, n*n messages.

Sums are taken in rank order 0, 1, … n-1, each by one rank, so the result is the same to the last bit on all ranks.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ringtree.algorithms.cost import S, cost, n
from ringtree.ir.schedule import Block, Buffer, Schedule, Transfers

SOURCE = "Cowan and others: MSCCLang: Microsoft collective communication language, 2023"
WHEN = "long vectors on a machine where every rank reaches every other at once, or where sums must be in rank order."


@cost(2, 2 * (n - 1) / n * S)
def all_reduce(ranks: int) -> Schedule:
    """Returns two rounds, n chunks: rank k reduces chunk k, then sends it to all."""
    source, target = _everyone_to_everyone(ranks)
    first = Transfers.of(
        source, target, target, reduce=source > 0, source_buffer=Buffer.INPUT, target_buffer=Buffer.OUTPUT
    )
    away = source != target
    second = Transfers.of(
        source[away], target[away], source[away], source_buffer=Buffer.OUTPUT, target_buffer=Buffer.OUTPUT
    )
    blocks = (Block(first), Block(second)) if ranks > 1 else (Block(first),)
    return Schedule("two_shot", "all_reduce", ranks, ranks, blocks)


@cost(1, (n - 1) / n * S)
def reduce_scatter(ranks: int) -> Schedule:
    """Returns one round, n chunks: every rank sends chunk k to rank k, which reduces it."""
    source, target = _everyone_to_everyone(ranks)
    rows = Transfers.of(
        source, target, target, to=0, reduce=source > 0, source_buffer=Buffer.INPUT, target_buffer=Buffer.OUTPUT
    )
    return Schedule("two_shot", "reduce_scatter", ranks, ranks, (Block(rows),))


@cost(1, (n - 1) / n * S)
def all_gather(ranks: int) -> Schedule:
    """Returns one round, n chunks: every rank sends its chunk to all."""
    source, target = _everyone_to_everyone(ranks)
    rows = Transfers.of(source, target, 0, to=source, source_buffer=Buffer.INPUT, target_buffer=Buffer.OUTPUT)
    return Schedule("two_shot", "all_gather", ranks, ranks, (Block(rows),))


def _everyone_to_everyone(ranks: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """All pairs by source; each source begins with the rank after it, so that not all send to the same one first."""
    source = np.repeat(np.arange(ranks), ranks)
    return source, (source + 1 + np.tile(np.arange(ranks), ranks)) % ranks
