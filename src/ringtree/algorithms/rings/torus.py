"""2D torus: a ring along each row, then each column; all_reduce in four rotated copies, so that all ports are busy.

Each copy has a quarter of the vector: rows or columns first, and each also in the other direction; its blocks are in
the order of the rings, so that each message is one range. reduce_scatter and
all_gather are one copy: the quarters of a block are not adjacent, so in four copies a rank would send 4*(n-1) messages
instead of x+y-2: 252 instead of 14 at n = 64. The ranks are x times y, as near to a square as n allows; a prime n is a
ring in both directions.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations_with_replacement
from math import prod

import numpy as np

from ringtree.algorithms.cost import S, Term, cost, n
from ringtree.algorithms.ranges import backwards
from ringtree.ir.schedule import Block, Schedule, Transfers
from ringtree.transform import reverse
from ringtree.transform.rows import by_round

SOURCE = "Sack, Gropp: Collective algorithms for multiported torus networks, 2015"
WHEN = "ranks that are the nodes of a two-dimensional torus, with links to four neighbours each."

Axis = tuple[int, int]  # number of ranks along it, and the difference of their numbers


@lru_cache(maxsize=64)
def shape(ranks: int, dimensions: int) -> tuple[int, ...]:
    """The `dimensions` factors of `ranks` with the least sum, in rising order."""
    divisors = [d for d in range(1, ranks + 1) if ranks % d == 0]
    return min((f for f in combinations_with_replacement(divisors, dimensions) if prod(f) == ranks), key=sum)


x = Term("x", lambda ranks: shape(ranks, 2)[0], "n = x*y, as near to a square as can be")
y = Term("y", lambda ranks: shape(ranks, 2)[1])


@cost(2 * (x + y - 2), 2 * (n - 1) / n * S)
def all_reduce(ranks: int, dimensions: int = 2) -> Schedule:
    """Returns rotated copies of reduce and broadcast laps, two per axis, n chunks each."""
    axes = _axes(ranks, dimensions)
    turned = [(axes[k:] + axes[:k], way) for k in range(len(axes)) for way in (1, -1)]
    down = by_round([_lap(ranks, order, way, k * ranks) for k, (order, way) in enumerate(turned)])
    blocks = (Block(backwards(down)), Block(down)) if axes else ()
    return Schedule("torus", "all_reduce", ranks, ranks * max(len(turned), 1), blocks)


@cost(x + y - 2, (n - 1) / n * S)
def reduce_scatter(ranks: int, dimensions: int = 2) -> Schedule:
    """Returns the all_gather in reverse, n chunks."""
    return reverse(all_gather(ranks, dimensions))


@cost(x + y - 2, (n - 1) / n * S)
def all_gather(ranks: int, dimensions: int = 2) -> Schedule:
    """Neighbours in number first, so that a rank's blocks are neighbours."""
    blocks = (Block(_lap(ranks, axes, 1, 0)),) if (axes := _axes(ranks, dimensions)) else ()
    return Schedule("torus", "all_gather", ranks, ranks, blocks)


def _axes(ranks: int, dimensions: int) -> list[Axis]:
    extents = shape(ranks, dimensions)
    return [(extent, prod(extents[:k])) for k, extent in enumerate(extents) if extent > 1]


def _lap(ranks: int, axes: list[Axis], way: int, begin: int) -> Transfers:
    """An all_gather along one axis after the other, on n chunks from `begin` on, those of the first axis together."""
    rank, parts, width = np.arange(ranks), list[Transfers](), 1
    before = np.cumprod([1, *(extent for extent, _ in axes)])
    position = sum((rank // apart % extent * w for (extent, apart), w in zip(axes, before, strict=False)), 0 * rank)
    for extent, apart in axes:
        along = rank // apart % extent
        target = rank + ((along + way) % extent - along) * apart
        group = position // (width * extent) * (width * extent)
        for step in range(extent - 1):
            chunk = begin + group + (along - way * step) % extent * width
            parts.append(Transfers.of(rank, target, chunk, count=width, round=len(parts)))
        width *= extent
    return Transfers.concatenate(parts)
