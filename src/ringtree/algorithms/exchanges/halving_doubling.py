"""Recursive halving and doubling: exchanges with the rank p/2, p/4, … 1 away halve a rank's part of the sum, and back.

Fewest rounds among those that send the fewest bytes, if n is a power of two. Else p, the largest power of two below n,
take part: of the first 2*(n-p) ranks the even ones send their input to the next rank and receive their result from it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ringtree.algorithms.cost import S, at_most, cost, lg, minimum, n, p
from ringtree.algorithms.ranges import backwards
from ringtree.ir.schedule import Block, Schedule, Transfers
from ringtree.transform import reverse

SOURCE = "Rabenseifner: Optimization of collective reduction operations, 2004"
WHEN = "medium vectors, above all where n is a power of two: few rounds and still the fewest bytes."

Indices = NDArray[np.int64]


@cost(2 * lg(p) + 2 * (n > p), 2 * (p - 1) / p * S + (n > p) * S)
def all_reduce(ranks: int) -> Schedule:
    """Returns halving, then doubling, over p ranks and p chunks; other ranks are folded in first and out last."""
    active, folded = taking_part(ranks)
    ends, chunks = np.arange(len(active) + 1), len(active)
    fold = Transfers.of(folded, folded + 1, 0, count=chunks, reduce=True)
    unfold = Transfers.of(folded + 1, folded, 0, count=chunks)
    blocks = _blocks(fold, _halving(active, ends), _doubling(active, ends), unfold)
    return Schedule("halving_doubling", "all_reduce", ranks, chunks, blocks)


@cost(lg(p) + 2 * (n > p), (n - 1) / n * S + (n > p) * S / n)
def reduce_scatter(ranks: int) -> Schedule:
    """A rank that took in another adds up both their blocks."""
    active, folded = taking_part(ranks)
    fold = Transfers.of(folded, folded + 1, 0, count=ranks, reduce=True)
    unfold = Transfers.of(folded + 1, folded, folded)
    blocks = _blocks(fold, _halving(active, np.append(0, active + 1)), unfold)
    return Schedule("halving_doubling", "reduce_scatter", ranks, ranks, blocks)


@cost(lg(p) + 2 * (n > p), at_most((p - 1 + minimum(p - 1, (n - p) * lg(p))) / n * S + (n > p) * S))
def all_gather(ranks: int) -> Schedule:
    """Returns the reduce_scatter in reverse, n chunks."""
    return reverse(reduce_scatter(ranks))


def taking_part(ranks: int) -> tuple[Indices, Indices]:
    """The ranks that take part, a power of two of them, and those that are folded into the rank after them."""
    power = 1 << (ranks.bit_length() - 1)
    folded = np.arange(ranks - power) * 2
    return np.delete(np.arange(ranks), folded), folded


def _halving(active: Indices, ends: Indices) -> Transfers:
    """Number a of those that take part ends with the sum of chunks ends[a] to ends[a+1]."""
    a, distance = np.arange(len(active)), len(active) // 2
    parts: list[Transfers] = []
    while distance:
        peer = a ^ distance
        first = peer & -distance
        start = ends[first]
        size = ends[first + distance] - start
        parts.append(Transfers.of(active, active[peer], start, count=size, reduce=True, round=len(parts)))
        distance //= 2
    return Transfers.concatenate(parts)


def _doubling(active: Indices, ends: Indices) -> Transfers:
    """Doubling: number a starts with chunks ends[a] to ends[a+1] and ends with all."""
    back = backwards(_halving(active, ends))
    return replace(back, reduce=np.zeros(len(back), dtype=np.bool_))


def _blocks(*parts: Transfers) -> tuple[Block, ...]:
    return tuple(Block(p) for p in parts if len(p))
