"""Circulant broadcast: m blocks to all in m-1+lg(n) rounds, which is the least there can be, for any n and m.

In round k every rank sends a block to the rank s[k] ahead and gets one from the rank s[k] behind; the skips s[0] = 1,
s[1], … to n/2 come again after lg(n) rounds. Once it has begun, every rank gets a new block in every round. Option:
`pieces` m, by default 4*lg(n), with which the root sends a quarter more than the vector.

broadcast: m-1+lg(n) rounds, (m-1+lg(n))/m*S bytes
reduce: m-1+lg(n) rounds, at most (m-1+lg(n))/m*S bytes

When: long vectors over any number of ranks, where each can send to one and receive from one at a time.

Source: Träff: Optimal broadcast schedules in logarithmic time with applications to broadcast, all-broadcast, reduction
and all-reduction, 2024
"""

from __future__ import annotations

import numpy as np

from ringtree.ir.schedule import Block, Schedule, Transfers
from ringtree.transform import reverse


def terms(ranks: int) -> dict[str, int]:
    """m = 4*lg(n) pieces"""
    return {"m": max(4 * (ranks - 1).bit_length(), 1)}


def broadcast(ranks: int, root: int, *, pieces: int | None = None) -> Schedule:
    m = terms(ranks)["m"] if pieces is None else pieces
    if m < 1:
        raise ValueError(f"circulant_broadcast: cut into {m} pieces; expected at least 1")
    skips = _skips(ranks)
    cycle = len(skips) - 1
    early = -(m - 1) % max(cycle, 1)  # rounds left out at the beginning, so that the last one ends a cycle
    blocks = np.array([_received(rank, skips) for rank in range(1, ranks)])
    has = np.zeros((ranks, m), dtype=np.bool_)
    rows = []
    for round in range(early, m - 1 + cycle + early if ranks > 1 else 0):
        block = np.minimum(blocks[:, round % cycle] + round // cycle * cycle - early, m - 1)
        target = 1 + np.flatnonzero((block >= 0) & ~has[np.arange(1, ranks), np.maximum(block, 0)])
        chunk = block[target - 1]
        has[target, chunk] = True
        source = (target - skips[round % cycle]) % ranks
        rows.append(Transfers.of((source + root) % ranks, (target + root) % ranks, chunk, round=round - early))
    once = (Block(Transfers.concatenate(rows)),) if rows else ()
    return Schedule("circulant_broadcast", "broadcast", ranks, m, once, root)


def reduce(ranks: int, root: int, *, pieces: int | None = None) -> Schedule:
    return reverse(broadcast(ranks, root, pieces=pieces))


def _skips(ranks: int) -> list[int]:
    """1 to n, each half of the next, rounded up."""
    skips = [ranks]
    while skips[-1] > 1:
        skips.append(-(-skips[-1] // 2))
    return skips[::-1]


def _first(rank: int, skips: list[int]) -> int:
    """The round of the first cycle in which the rank hears for the first time: the last hop of the way to it in which
    each hop is the greatest skip that does not go too far."""
    for k in range(len(skips) - 2, -1, -1):
        if skips[k] == rank:
            return k
        rank -= skips[k] if skips[k] < rank else 0
    raise AssertionError("skips end with 1")


def _received(rank: int, skips: list[int]) -> list[int]:
    """The block that each round of the first cycle brings; in each later cycle as many more as a cycle has rounds, and
    what is negative is none. Block k leaves the root in round k.

    For round k this finds the nearest rank on a way from the root that is not nearer than skips[k], not farther than
    the one for the round before, and whose last hop was not used yet: its first block is what comes a cycle later."""
    cycle, here = len(skips) - 1, skips[-1] + rank
    mine = _first(rank, skips)
    unused = set(range(cycle + 1)) - {mine}
    found, nearest = list[int](), 2 * skips[-1]

    def limit(ahead: int = 0) -> int:
        return here - skips[len(found) + ahead]

    def fits(hop: int, there: int) -> bool:
        return len(found) < cycle and hop in unused and there < nearest and there <= limit()

    def walk(at: int, top: int) -> None:
        nonlocal nearest
        for hop in range(top, -1, -1):
            there = at + skips[hop]
            if fits(hop, there) and there <= limit(1):
                walk(there, hop)
            if fits(hop, there):
                if at > limit(1):
                    return
                nearest = there
                found.append(hop)
                unused.remove(hop)

    walk(0, cycle)
    return [mine if hop == cycle else hop - cycle for hop in found]
