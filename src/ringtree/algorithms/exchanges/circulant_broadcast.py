"""Circulant broadcast: m blocks to all in m-1+lg(n) rounds, the least possible number, for any n and m.

In round k every rank sends a block to the rank s[k] ahead and receives one from the rank s[k] behind; the skips s[0] =
1, s[1], … to n/2 repeat after lg(n) rounds. After its first block, every rank receives a new one in every round.
Option: `pieces` m, by default 4*lg(n), with which the root sends a quarter more than the vector.
"""

from __future__ import annotations

import numpy as np

from ringtree.algorithms.cost import S, Term, at_most, cost, lg, n
from ringtree.algorithms.exchanges.skips import received, skips_to
from ringtree.ir.schedule import Block, Schedule, Transfers
from ringtree.transform import reverse

SOURCE = (
    "Träff: Optimal broadcast schedules in logarithmic time with applications to broadcast, all-broadcast, reduction "
    "and all-reduction, 2024"
)
WHEN = "long vectors over any number of ranks, where each can send to one and receive from one at a time."
m = Term("m", lambda ranks: max(4 * (ranks - 1).bit_length(), 1), "m = 4*lg(n) pieces")


@cost(m - 1 + lg(n), (m - 1 + lg(n)) / m * S)
def broadcast(ranks: int, root: int, *, pieces: int | None = None) -> Schedule:
    """Returns the schedule from `root` with the vector in `pieces` chunks; ValueError for fewer than 1."""
    count = m.of(ranks) if pieces is None else pieces
    if count < 1:
        raise ValueError(f"circulant_broadcast: cut into {count} pieces; expected at least 1")
    skips = skips_to(ranks)
    cycle = len(skips) - 1
    early = -(count - 1) % max(cycle, 1)  # rounds left out at the beginning, so that the last one ends a cycle
    blocks = np.array([received(rank, skips) for rank in range(1, ranks)])
    has = np.zeros((ranks, count), dtype=np.bool_)
    rows = []
    for round in range(early, count - 1 + cycle + early if ranks > 1 else 0):
        block = np.minimum(blocks[:, round % cycle] + round // cycle * cycle - early, count - 1)
        target = 1 + np.flatnonzero((block >= 0) & ~has[np.arange(1, ranks), np.maximum(block, 0)])
        chunk = block[target - 1]
        has[target, chunk] = True
        source = (target - skips[round % cycle]) % ranks
        rows.append(Transfers.of((source + root) % ranks, (target + root) % ranks, chunk, round=round - early))
    once = (Block(Transfers.concatenate(rows)),) if rows else ()
    return Schedule("circulant_broadcast", "broadcast", ranks, count, once, root)


@cost(m - 1 + lg(n), at_most((m - 1 + lg(n)) / m * S))
def reduce(ranks: int, root: int, *, pieces: int | None = None) -> Schedule:
    """Returns the broadcast in reverse, in `pieces` chunks."""
    return reverse(broadcast(ranks, root, pieces=pieces))
