"""Binomial tree: in every round, each rank with the data sends to a rank without it, so their number doubles.

Fewest rounds of all; whole vectors are sent lg(n) times by the root. gather and scatter send to each subtree its own
chunks, and so also the fewest bytes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ringtree.algorithms.cost import S, Term, cost, lg, n
from ringtree.algorithms.ranges import wrapped
from ringtree.ir.schedule import Block, Schedule, Transfers
from ringtree.transform import reverse

SOURCE = "Chan, Heimlich, Purkayastha, van de Geijn: Collective communication: theory, practice, and experience, 2007"
WHEN = "short vectors, where latency dominates; scatter and gather of any length."


def _greatest_subtree(ranks: int) -> int:
    farthest = 1 << (ranks - 1).bit_length() >> 1
    return max(ranks - farthest, farthest // 2)


t = Term("t", _greatest_subtree, "t: ranks in the root's greatest subtree")


@cost(lg(n), lg(n) * S)
def broadcast(ranks: int, root: int) -> Schedule:
    """Returns the schedule from `root`: lg(n) rounds, 1 chunk."""
    rows, _ = _down(ranks, root)
    return Schedule("binomial", "broadcast", ranks, 1, (Block(rows),) if len(rows) else (), root)


@cost(lg(n), S)
def reduce(ranks: int, root: int) -> Schedule:
    """Returns the broadcast in reverse: sums end at `root`."""
    return reverse(broadcast(ranks, root))


@cost(lg(n), (n - 1) / n * S)
def scatter(ranks: int, root: int) -> Schedule:
    """Returns the schedule in which each subtree gets its own chunks of n in one transfer."""
    rows, size = _down(ranks, root)
    subtrees = Transfers.of(rows.source, rows.target, rows.target, count=size, round=rows.round)
    blocks = (Block(wrapped(subtrees, ranks)),) if len(rows) else ()
    return Schedule("binomial", "scatter", ranks, ranks, blocks, root)


@cost(lg(n), t / n * S)
def gather(ranks: int, root: int) -> Schedule:
    """Returns the scatter in reverse: each subtree's chunks of n arrive in one transfer."""
    return reverse(scatter(ranks, root))


def _down(ranks: int, root: int) -> tuple[Transfers, NDArray[np.int64]]:
    """The tree from the root, farthest first, and the size of each target's subtree: it and the ranks behind it."""
    parts, sizes = list[Transfers](), list[NDArray[np.int64]]()
    distance = 1 << (ranks - 1).bit_length()
    while distance > 1:
        child = np.arange(distance // 2, ranks, distance)
        distance //= 2
        parts.append(Transfers.of((root + child - distance) % ranks, (root + child) % ranks, round=len(parts)))
        sizes.append(np.minimum(distance, ranks - child))
    return Transfers.concatenate(parts), np.concatenate([[], *sizes]).astype(np.int64)
