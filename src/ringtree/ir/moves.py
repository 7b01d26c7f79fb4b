"""A schedule's transfers as moves of single chunks between cells, the form in which it is played."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ringtree.ir.ranges import positions
from ringtree.ir.schedule import Buffer, Schedule, Transfers
from ringtree.ir.spec import ScheduleError, describe, title

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class CellLayout:
    """All chunks of all participants' buffers as one run of cells: [buffer, participant] -> first cell, length."""

    first: Ints
    length: Ints
    cells: int

    @staticmethod
    def of(s: Schedule) -> CellLayout:
        """Returns the layout of all buffers of a schedule, a cell per chunk."""
        length = np.zeros((len(Buffer), s.participants), dtype=np.int64)
        length[Buffer.SCRATCH] = s.scratch
        if s.in_place:
            length[Buffer.DATA, : s.ranks] = s.chunks
        else:
            for rank in range(s.ranks):
                length[Buffer.INPUT, rank], length[Buffer.OUTPUT, rank] = (
                    len(s.precondition(rank)),
                    len(s.postcondition(rank)),
                )
        ends = np.cumsum(length.T).reshape(length.T.shape).T
        return CellLayout(ends - length, length, int(length.sum()))

    def precondition(self, s: Schedule, rank: int) -> slice:
        """The cells of the rank's input."""
        return self._cells(s, rank, Buffer.INPUT, s.precondition(rank))

    def postcondition(self, s: Schedule, rank: int) -> slice:
        """The cells of the rank's output."""
        return self._cells(s, rank, Buffer.OUTPUT, s.postcondition(rank))

    def _cells(self, s: Schedule, rank: int, buffer: Buffer, window: range) -> slice:
        first = self.first[Buffer.DATA, rank] + window.start if s.in_place else self.first[buffer, rank]
        return slice(first, first + len(window))


@dataclass(frozen=True, slots=True)
class Moves:
    """The schedule's transfers of single chunks, ordered by round and then by *layer*: the k-th write of a round to
    one cell is in layer k, so that a layer writes every cell at most once."""

    layout: CellLayout
    rows: Transfers
    row: Ints  # the transfer, in the expanded schedule
    source: Ints  # cells
    target: Ints
    reduce: NDArray[np.bool_]
    rounds: list[tuple[int, list[tuple[int, int]]]]  # first move, and the layers as (first, last+1) move

    @staticmethod
    def of(s: Schedule) -> Moves:
        """Returns the moves of all transfers, a move per chunk. ScheduleError for a chunk outside its buffer."""
        layout, rows = CellLayout.of(s), s.expand()
        source, target = (_cells(s, layout, rows, side) for side in ("source", "target"))
        count = rows.count.astype(np.int64)
        row = np.repeat(np.arange(len(rows)), count)
        if len(row) > len(rows):
            step = positions(count)
            source, target = source[row] + step, target[row] + step
        round_ = rows.round[row]
        layer = _occurrence(round_, target, layout.cells)
        if layer.any():
            order = np.lexsort((layer, round_))
            row, source, target = row[order], source[order], target[order]
            layer, round_ = layer[order], round_[order]
        return Moves(layout, rows, row, source, target, rows.reduce[row], _batches(round_, layer))

    def unwritten(self, s: Schedule) -> int | None:
        """The first row that sends a chunk, or adds to one, which nothing has written before; None if there is none."""
        written = np.zeros(self.layout.cells, dtype=np.bool_)
        for rank in range(s.ranks):
            written[self.layout.precondition(s, rank)] = True
        ends = [*(first for first, _ in self.rounds[1:]), len(self.row)]
        for (first, layers), last in zip(self.rounds, ends, strict=False):
            early = ~written[self.source[first:last]]
            for begin, end in layers:
                target = self.target[begin:end]
                early[begin - first : end - first] |= self.reduce[begin:end] & ~written[target]
                written[target] = True
            if np.any(early):
                return int(self.row[first:last][early].min())
        return None

    def before(self, row: int, *, round_only: bool = False) -> Moves:
        """The moves listed before transfer `row`; with `round_only`, only those of the rounds before its round."""
        rows = self.rows
        low = int(np.searchsorted(rows.round, rows.round[row])) if round_only else row
        keep = self.row < low
        r = self.row[keep]
        round_ = rows.round[r]
        layer = _occurrence(round_, self.target[keep], self.layout.cells)
        return Moves(
            self.layout, rows, r, self.source[keep], self.target[keep], self.reduce[keep], _batches(round_, layer)
        )


def _cells(s: Schedule, layout: CellLayout, rows: Transfers, side: str) -> Ints:
    """The first cell of each row's range; refuses rows outside the rank's own window."""
    rank, buffer = getattr(rows, side), getattr(rows, f"{side}_buffer")
    chunk = getattr(rows, f"{side}_chunk").astype(np.int64)
    outside = np.flatnonzero(chunk + rows.count > layout.length[buffer, rank])
    if len(outside):
        i = int(outside[0])
        name, has = Buffer(int(buffer[i])).name.lower(), int(layout.length[buffer[i], rank[i]])
        raise ScheduleError(
            f"{title(s)}: {describe(rows, i)}: rank {rank[i]} has {has} chunks of {name}; this needs "
            f"{chunk[i] + rows.count[i]}"
        )
    cells: Ints = layout.first[buffer, rank] + chunk
    return cells


def _occurrence(round_: NDArray[np.int32], target: Ints, cells: int) -> Ints:
    """The number of earlier moves of its round that write the same cell, for each move."""
    key = round_.astype(np.int64) * max(cells, 1) + target
    order = np.argsort(key, kind="stable")
    sorted_keys = key[order]
    new = np.ones(len(key), dtype=np.bool_)
    new[1:] = sorted_keys[1:] != sorted_keys[:-1]
    start = np.flatnonzero(new)
    nth = np.empty(len(key), dtype=np.int64)
    nth[order] = positions(np.diff(start, append=len(key)))
    return nth


def _batches(round_: NDArray[np.int32], layer: Ints) -> list[tuple[int, list[tuple[int, int]]]]:
    """The rounds as (first move, layers); `round_` and `layer` are sorted."""
    if not len(round_):
        return []
    new_round = np.diff(round_, prepend=-1) != 0
    edges = np.flatnonzero(new_round | (np.diff(layer, prepend=-1) != 0))
    opens = new_round[edges].tolist()
    batches: list[tuple[int, list[tuple[int, int]]]] = []
    bounds = [*edges.tolist(), len(round_)]
    for low, high, first in zip(bounds, bounds[1:], opens, strict=False):
        if first:
            batches.append((low, []))
        batches[-1][1].append((low, high))
    return batches
