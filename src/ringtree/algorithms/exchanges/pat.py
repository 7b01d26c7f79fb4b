"""PAT, parallel aggregated trees: a binomial tree per block, farthest first, and all trees at once.

A far message is one block, those to the neighbour are half of all blocks. Option: `aggregate` a, a power of two, bounds
the buffers: a rank sends at most a blocks in a round, each as a message of its own, as they are not adjacent. By
default there is no bound. With one, at most a trees are walked at a time: lg(2*a)+n/a-2 rounds, and in reduce_scatter
at most 2*a+a*lg(n/(2*a)) partial sums.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ringtree.algorithms.cost import S, cost, lg, n
from ringtree.ir.schedule import Block, Buffer, Schedule, Transfers

SOURCE = "Jeaugey: PAT: a new algorithm for all-gather and reduce-scatter operations at scale, 2025"
WHEN = "short to medium blocks over many ranks where far links are the slow ones, or buffers are bounded."


@cost(lg(n), (n - 1) / n * S)
def all_gather(ranks: int, *, aggregate: int | None = None) -> Schedule:
    """A rank that is `behind` ranks after a block's owner passes it on to the rank `distance` further on."""
    parts = [
        Transfers.of(rank, (rank + distance) % ranks, (rank - behind) % ranks, round=round)
        for round, (distance, rank, behind) in enumerate(_steps(ranks, _trees(ranks, aggregate)))
    ]
    return Schedule("pat", "all_gather", ranks, ranks, (Block(Transfers.concatenate(parts)),) if parts else ())


@cost(lg(n), (n - 1) / n * S)
def reduce_scatter(ranks: int, *, aggregate: int | None = None) -> Schedule:
    """The trees of all_gather upwards. The neighbour's sum arrives first: with it the own input goes into the
    partial."""
    trees, top = _trees(ranks, aggregate), 1 << (ranks - 1).bit_length()
    width = max(top // (2 * trees), 2)  # of the subtrees that are walked one after another
    roots, levels = max(top // width - 1, 0), width.bit_length() - 2

    def slot(behind: NDArray[np.int64]) -> NDArray[np.int64]:
        """The chunk in scratch: one for each subtree's root, then one a level for each that is walked at a time."""
        level = np.frexp(behind & -behind)[1] - 2
        return np.where(behind % width, roots + behind // width % trees * levels + level, behind // width - 1)

    own = Transfers.of(0, 0, source_buffer=Buffer.INPUT, target_buffer=Buffer.OUTPUT)
    parts = [own] if ranks == 1 else []
    for round, (distance, rank, behind) in enumerate(reversed(_steps(ranks, trees))):
        block, child, lower = (rank - behind) % ranks, (rank + distance) % ranks, behind + distance
        many = (lower % 2 == 0) & (lower < ranks - 1)  # else the child's subtree is the child alone
        buffer, chunk = np.where(many, Buffer.SCRATCH, Buffer.INPUT), np.where(many, slot(lower), block)
        at, to = np.where(behind, Buffer.SCRATCH, Buffer.OUTPUT), np.where(behind, slot(behind), 0)
        own = Transfers.of(rank, rank, block, to=to, round=round, source_buffer=Buffer.INPUT, target_buffer=at)
        parts += [own] if distance == 1 else []
        got = Transfers.of(child, rank, chunk, to=to, reduce=True, round=round, source_buffer=buffer, target_buffer=at)
        parts.append(got)
    blocks, scratch = (Block(Transfers.concatenate(parts)),), roots + trees * levels
    return Schedule("pat", "reduce_scatter", ranks, ranks, blocks, scratch=scratch)


def _trees(ranks: int, aggregate: int | None) -> int:
    most = max(1 << (ranks - 1).bit_length() >> 1, 1)
    trees = most if aggregate is None else aggregate
    if trees < 1 or trees & (trees - 1):
        raise ValueError(f"pat: {trees} blocks a round; expected a power of two")
    return min(trees, most)


def _steps(ranks: int, trees: int) -> list[tuple[int, NDArray[np.int64], NDArray[np.int64]]]:
    """Per round the distance, and as columns the senders of the round and each one's distance behind the block's
    owner."""
    top = 1 << (ranks - 1).bit_length()
    width = top // (2 * trees)
    hops = [(top >> k, np.arange(0, top, top >> k - 1)) for k in range(1, min(2 * trees, top).bit_length())]
    roots = np.arange(0, top, max(width, 1)).reshape(-1, trees)
    hops += [(distance, group + at) for group in roots for at, distance in _below(0, width)]
    due = [(distance, behind[behind + distance < ranks]) for distance, behind in hops]
    return [(d, np.repeat(np.arange(ranks), len(b)), np.tile(b, ranks)) for d, b in due if len(b)]


def _below(behind: int, width: int) -> list[tuple[int, int]]:
    """A subtree's hops as (from, distance), each before those below it."""
    return [(behind, half), *_below(behind + half, half), *_below(behind, half)] if (half := width // 2) else []
