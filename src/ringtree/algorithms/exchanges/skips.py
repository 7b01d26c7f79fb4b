"""The block that each rank receives in each round on a circulant graph: helpers of circulant_broadcast."""

from __future__ import annotations


def skips_to(ranks: int) -> list[int]:
    """1 to n, each half of the next, rounded up."""
    skips = [ranks]
    while skips[-1] > 1:
        skips.append(-(-skips[-1] // 2))
    return skips[::-1]


def _first(rank: int, skips: list[int]) -> int:
    """The round of the first cycle in which the rank first receives: the last hop of the route to it on which each hop
    is the greatest skip that does not overshoot."""
    for k in range(len(skips) - 2, -1, -1):
        if skips[k] == rank:
            return k
        rank -= skips[k] if skips[k] < rank else 0
    raise AssertionError("skips end with 1")


def received(rank: int, skips: list[int]) -> list[int]:
    """The block that each round of the first cycle brings; in each later cycle the number grows by the rounds of a
    cycle; a negative number is no block. Block k leaves the root in round k.

    For round k this finds the nearest rank on a route from the root that is not nearer than skips[k], not farther than
    the rank of the round before, and whose last hop was not used yet: its first block arrives a cycle later."""
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
