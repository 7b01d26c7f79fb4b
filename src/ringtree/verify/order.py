"""The order of a schedule's additions: the laws that an operation must satisfy for the schedule to compute it."""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from ringtree.ir.moves import Ints, Moves
from ringtree.ir.schedule import Schedule


class ReductionOrder(IntEnum):
    """The order of a schedule's sums; an order permits all operations that the orders of lower number permit."""

    ANY = 0
    """Any order: the operation must commute."""
    ASSOCIATIVE = 1
    """Joins of neighbouring runs of ranks only, the lower on the left: the operation need not commute."""
    FOLD = 2
    """One sum of all ranks at once, in rank order, wherever it is formed: the same bits by every such schedule."""


def rank_order(schedule: Schedule) -> ReductionOrder:
    """The order in which a proved schedule of a reducing collective adds up, the least of all its outputs'.

    Runs do not go round: n-1 is no neighbour of 0. ValueError: if the collective reduces nothing. Cost as prove's.
    """
    runs, out = _played(schedule)
    return ReductionOrder(int(runs.order[out].min(initial=ReductionOrder.FOLD)))


def is_balanced(schedule: Schedule) -> bool:
    """Whether a proved schedule of a reducing collective forms every output by the balanced tree over ranks in rank
    order, joining two sums at a time: the sum of k > 1 ranks is that of the first p, the largest power of two below k,
    joined with that of the others.

    Such a schedule over m * 2**j ranks gives the bits of one over m ranks, each of which contributes such a sum over
    2**j. ValueError: if the collective reduces nothing. Cost as prove's.
    """
    runs, out = _played(schedule)
    return bool(runs.balanced[out].all())


def _played(s: Schedule) -> tuple[_Runs, Ints]:
    """The content of all cells at the end, and the cells of the outputs."""
    if not s.promise.reduces:
        raise ValueError(f"{s.name}: {s.collective} reduces nothing, so it has no order")
    moves = Moves.of(s)
    runs = _Runs(s, moves)
    for number, (first, layers) in enumerate(moves.rounds):
        runs.round(number, first, layers)
    out = np.concatenate(
        [np.arange(moves.layout.cells)[moves.layout.postcondition(s, rank)] for rank in range(s.ranks)]
    )
    return runs, out


class _Runs:
    """The content of every cell: the sum of ranks low … high-1, the order of its additions, whether they are a balanced
    tree of two at a time, and the round in which it was last added to (-1: it was received whole)."""

    def __init__(self, s: Schedule, moves: Moves) -> None:
        cells = moves.layout.cells
        self.moves, self.split = moves, _split(moves)
        self.low = np.zeros(cells, dtype=np.int64)
        self.high = np.zeros(cells, dtype=np.int64)
        self.order = np.zeros(cells, dtype=np.int8)
        self.balanced = np.zeros(cells, dtype=np.bool_)
        self.formed = np.full(cells, -1, dtype=np.int64)
        for rank in range(s.ranks):
            here = moves.layout.precondition(s, rank)
            self.low[here], self.high[here], self.order[here] = rank, rank + 1, ReductionOrder.FOLD
            self.balanced[here] = True

    def round(self, number: int, first: int, layers: list[tuple[int, int]]) -> None:
        """Plays one round, whose moves begin with `first`."""
        here = self.moves.source[first : layers[-1][1]]
        lows, highs, orders, trees = self.low[here], self.high[here], self.order[here], self.balanced[here]
        for start, stop in layers:
            target, reduce = self.moves.target[start:stop], self.moves.reduce[start:stop]
            part = slice(start - first, stop - first)
            low, high, order, tree = lows[part], highs[part], orders[part], trees[part]
            formed = np.full(len(target), -1, dtype=np.int64)
            if reduce.any():
                joined = self._join(number, target, low, high, order, self.split[start:stop])
                tree = np.where(reduce, tree & self._grows_a_tree(number, target, low, high), tree)
                low, order = np.where(reduce, self.low[target], low), np.where(reduce, joined, order)
                formed[reduce] = number
            self.low[target], self.high[target], self.order[target], self.formed[target] = low, high, order, formed
            self.balanced[target] = tree

    def _join(
        self, number: int, target: Ints, low: Ints, high: Ints, order: NDArray[np.int8], split: NDArray[np.bool_]
    ) -> NDArray[np.int8]:
        """The order of the present sum with the arrived sum added behind it."""
        there = self.low[target], self.high[target], self.order[target]
        apart = (there[1] != low) | (there[2] == ReductionOrder.ANY) | (order == ReductionOrder.ANY)
        growing = (there[1] - there[0] == 1) | ((self.formed[target] == number) & (there[2] == ReductionOrder.FOLD))
        fold = growing & (high - low == 1) & ~split
        return np.where(
            apart, ReductionOrder.ANY, np.where(fold, ReductionOrder.FOLD, ReductionOrder.ASSOCIATIVE)
        ).astype(np.int8)

    def _grows_a_tree(self, number: int, target: Ints, low: Ints, high: Ints) -> NDArray[np.bool_]:
        """Whether the present sum is a balanced tree and the arrived sum would be its right neighbour, were it one:
        the left one is over a power of two, the right one over no more. What a round adds to a cell in several rows is
        one reduction, which rounds once, and no tree."""
        left, right = self.high[target] - self.low[target], high - low
        neighbours = (self.high[target] == low) & (left & (left - 1) == 0) & (right <= left)
        grows: NDArray[np.bool_] = self.balanced[target] & neighbours & (self.formed[target] != number)
        return grows


def _split(moves: Moves) -> NDArray[np.bool_]:
    """Whether the target of each move writes overlapping ranges in its round: there one round's reduction may be
    several steps."""
    rows, cells = moves.rows, moves.layout.cells
    if not np.any(rows.count > 1):
        return np.zeros(len(moves.row), dtype=np.bool_)
    first = moves.layout.first[rows.target_buffer, rows.target] + rows.target_chunk
    span = (first * (cells + 1) + rows.count)[moves.row]
    round_ = rows.round[moves.row].astype(np.int64)
    order = np.lexsort((moves.target, round_))
    overlap = (np.diff(round_[order]) == 0) & (np.diff(moves.target[order]) == 0) & (np.diff(span[order]) != 0)
    where = round_ * (int(rows.target.max()) + 1) + rows.target[moves.row]
    return np.isin(where, where[order[1:][overlap]])
