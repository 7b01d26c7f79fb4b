"""Flat tree: the root exchanges with every rank directly, one transfer each.

Sums are taken in rank order 0, 1, … n-1, in one reduction at the root.
"""

from __future__ import annotations

import numpy as np

from ringtree.algorithms.cost import S, cost, n
from ringtree.ir.schedule import Block, Buffer, Schedule, Transfers

SOURCE = "Vadhiyar, Fagg, Dongarra: Automatically tuned collective communications, 2000"
WHEN = "short vectors, or few ranks, or memory that all ranks share: one round, and no rank forwards another's data."


@cost(1, (n - 1) * S)
def broadcast(ranks: int, root: int) -> Schedule:
    """Returns one round in which `root` sends the vector to every other rank."""
    others = (root + np.arange(1, ranks)) % ranks
    blocks = (Block(Transfers.of(root, others)),) if ranks > 1 else ()
    return Schedule("flat", "broadcast", ranks, 1, blocks, root)


@cost(1, S)
def reduce(ranks: int, root: int) -> Schedule:
    """Whole inputs into the root's output, rank 0's stored and the others' added as listed."""
    rank = np.arange(ranks)
    rows = Transfers.of(rank, root, reduce=rank > 0, source_buffer=Buffer.INPUT, target_buffer=Buffer.OUTPUT)
    return Schedule("flat", "reduce", ranks, 1, (Block(rows),), root)


@cost(1, S / n)
def gather(ranks: int, root: int) -> Schedule:
    """Returns one round in which every other rank sends its chunk of n to `root`."""
    others = (root + np.arange(1, ranks)) % ranks
    blocks = (Block(Transfers.of(others, root, others)),) if ranks > 1 else ()
    return Schedule("flat", "gather", ranks, ranks, blocks, root)


@cost(1, (n - 1) / n * S)
def scatter(ranks: int, root: int) -> Schedule:
    """Returns one round in which `root` sends every other rank its chunk of n."""
    others = (root + np.arange(1, ranks)) % ranks
    blocks = (Block(Transfers.of(root, others, others)),) if ranks > 1 else ()
    return Schedule("flat", "scatter", ranks, ranks, blocks, root)
