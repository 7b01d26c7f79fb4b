"""Swing: partners 1, 1, 3, 5, 11, … away on a ring, to either side in turn; messages halve.

As few rounds and bytes as halving and doubling, but the partners are nearer on a ring or torus. Even ranks send to one
side, odd ones to the other. If n is odd, the last rank exchanges with each of the others directly, in the same rounds.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ringtree.algorithms.cost import S, Term, cost, lg, n
from ringtree.algorithms.ranges import backwards, runs
from ringtree.ir.schedule import Block, Schedule, Transfers
from ringtree.transform import reverse

SOURCE = "De Sensi, Bonato, Saam, Hoefler: Swing: short-cutting rings for higher bandwidth allreduce, 2024"
WHEN = "medium vectors on rings and tori, where halving and doubling would go too far."
m = Term("m", lambda ranks: max(ranks - ranks % 2, 1), "m: n if that is even, else n-1")


@cost(2 * lg(m), 2 * (n - 1) / n * S)
def all_reduce(ranks: int) -> Schedule:
    """Blocks are ordered by the ranks that have them together, so that for powers of two each message is one range."""
    rank, steps = np.arange(ranks), _steps(ranks)
    keys = [(rank - rank % 2 * _distance(s)) % (2 << s) for s in range(1, steps)]
    down = _rows(ranks, np.argsort(np.lexsort([rank, *keys[::-1]])))
    blocks = (Block(backwards(down)), Block(down)) if ranks > 1 else ()
    return Schedule("swing", "all_reduce", ranks, ranks, blocks)


@cost(lg(m), (n - 1) / n * S)
def reduce_scatter(ranks: int) -> Schedule:
    """Returns the all_gather in reverse, n chunks."""
    return reverse(all_gather(ranks))


@cost(lg(m), (n - 1) / n * S)
def all_gather(ranks: int) -> Schedule:
    """Returns the schedule with n chunks, one per rank."""
    blocks = (Block(_rows(ranks, np.arange(ranks))),) if ranks > 1 else ()
    return Schedule("swing", "all_gather", ranks, ranks, blocks)


def _distance(step: int) -> int:
    """1, -1, 3, -5, 11, …"""
    return 1 - 2 * _distance(step - 1) if step else 1


def _steps(ranks: int) -> int:
    return (ranks - ranks % 2 - 1).bit_length()


def _rows(ranks: int, position: NDArray[np.int64]) -> Transfers:
    """All-gather, farthest first: the partner receives the blocks it lacks. Block b is at position[b]."""
    even, last = ranks - ranks % 2, _steps(ranks) - 1
    has = np.eye(ranks, dtype=np.bool_)
    parts: list[Transfers] = []
    for step in range(last, -1, -1):
        moved, round = has.copy(), last - step
        for rank in range(even):
            partner = (rank + (-1) ** (rank % 2) * _distance(step)) % even
            lacking = has[rank] & ~has[partner]
            lacking[even:] = False
            parts.append(runs(rank, partner, position[lacking], round))
            moved[partner] |= lacking
            if ranks > even and min((rank + 1).bit_length() - 1, last) == round:
                parts += [runs(rank, even, position[[rank]], round), runs(even, rank, position[[even]], round)]
        has = moved
    return Transfers.concatenate(parts)
