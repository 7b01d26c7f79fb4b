"""The contents of the ranks' buffers after a round, as columns of a grid: a row a rank, a column a chunk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ringtree.draw.text.labels import chunk_label, gapped, ranks
from ringtree.ir.contents import NOTHING, Bits, Contents, Promised
from ringtree.ir.moves import CellLayout, Ints
from ringtree.ir.schedule import Buffer, Schedule

MOST_UNFOLDED = 16
"""More columns than this are joined where they are equal, and left out where they still are too many."""
MOST_FOLDED = 40
NARROW = 5
"""The width of a set of many ranks: 16 columns of them have room."""
FAR = 1 << 40
"""Separates a label's distance from its position from the values that are no label."""


class GridCell(NamedTuple):
    """`new`: written in this round. `kept`: what the collective promises there."""

    text: str
    new: bool = False
    kept: bool = False


class GridColumn(NamedTuple):
    """A column of a view: its heading, and a cell per shown rank."""

    head: str
    cells: tuple[GridCell, ...]


@dataclass(frozen=True, slots=True)
class Grid:
    """The chunks of `rows` (participants) that a schedule can write, as [row, column]: cells (-1: the row has no such
    chunk) and positions on the whole vector (-1: scratch, which is for any)."""

    schedule: Schedule
    rows: Sequence[int]
    cell: Ints
    position: Ints
    column: tuple[tuple[Buffer, int], ...]  # buffer and chunk of each column
    promised: Promised

    @staticmethod
    def of(s: Schedule, layout: CellLayout, rows: Sequence[int]) -> Grid:
        """Returns the grid of `rows` (ranks and switches) for a schedule."""
        buffers = (Buffer.DATA, Buffer.SCRATCH) if s.in_place else (Buffer.OUTPUT, Buffer.SCRATCH)
        here = np.array(rows, dtype=np.intp)
        cells, positions, columns = [], [], list[tuple[Buffer, int]]()
        for buffer in buffers:
            length, first = layout.length[buffer, here], layout.first[buffer, here]
            chunk = np.arange(int(layout.length[buffer].max(initial=0)))
            inside = chunk < length[:, None]
            start = np.array([_start(s, buffer, rank) for rank in rows], dtype=np.int64)
            cells.append(np.where(inside, first[:, None] + chunk, -1))
            positions.append(np.where(inside & (start[:, None] >= 0), start[:, None] + chunk, -1))
            columns += [(buffer, c) for c in chunk.tolist()]
        return Grid(s, rows, np.hstack(cells), np.hstack(positions), tuple(columns), Promised.of(s, layout))

    def columns(self, contents: Contents, written: Ints) -> list[GridColumn]:
        """The contents of the rows, the cells `written` marked. Equal neighbours are one column where there are many;
        of too many, a column of dots replaces some."""
        new, kept = (np.zeros(len(contents.label) + 1, dtype=np.bool_) for _ in range(2))  # the last: no such cell
        new[written] = True
        kept[self.promised.cell[self.promised.kept(contents)]] = True
        marks = np.stack([new[self.cell], kept[self.cell]], axis=2)
        label = np.append(contents.label, NOTHING)[self.cell]
        reduces = len(contents.sets) > 0
        sets = contents.sets[self.cell] if reduces else np.zeros((*label.shape, 0), dtype=np.uint64)
        fold = len(self.column) > MOST_UNFOLDED
        first = self._changes(label, sets, marks) if fold else np.arange(len(self.column))
        stops = np.append(first[1:], len(self.column))
        found = list[GridColumn]()
        for at in gapped(len(first), MOST_FOLDED):
            if at is None:
                found.append(gap(len(self.rows)))
                continue
            c = int(first[at])
            many = int(stops[at]) - c
            texts = self._texts(label[:, c], sets[:, c], c, many)
            cells = tuple(GridCell(text, *mark) for text, mark in zip(texts, marks[:, c].tolist(), strict=True))
            buffer, chunk = self.column[c]
            found.append(GridColumn(chunk_label(buffer, chunk, many, 1), cells))
        return found

    def _changes(self, label: Ints, sets: Bits, marks: NDArray[np.bool_]) -> Ints:
        """The columns that differ from the one before."""
        where = np.where(self.position >= 0, self.position, np.arange(len(self.column)))
        apart = np.where(label >= 0, label - where + FAR, label)
        origin = label // self.schedule.chunks
        buffer = np.array([b for b, _ in self.column])
        same: NDArray[np.bool_] = buffer[1:] == buffer[:-1]
        for contributors in (apart[:, :, None], origin[:, :, None], sets, marks, (self.cell < 0)[:, :, None]):
            same &= (contributors[:, 1:] == contributors[:, :-1]).all(axis=(0, 2))
        return np.flatnonzero(np.append(True, ~same))

    def _texts(self, label: Ints, sets: Bits, column: int, many: int) -> Iterator[str]:
        """The cells of a column that stands for `many`: whose contributions; `.3` after them where they are of another
        chunk, `.3:5` where of several."""
        s = self.schedule
        for row, code in enumerate(label.tolist()):
            if self.cell[row, column] < 0:
                yield ""
            elif code < 0:
                yield "·" if code == NOTHING else "✗"
            else:
                chunk = code % s.chunks
                bits = sets[row].tolist()
                who = [r for r in range(s.ranks) if bits[r // 64] >> r % 64 & 1] if bits else [code // s.chunks]
                home = chunk == self.position[row, column] or s.chunks == 1
                contributors = ranks(who, s.ranks, NARROW if s.ranks > MOST_UNFOLDED // 2 else 7)
                yield contributors if home else f"{contributors}.{chunk_label(Buffer.DATA, chunk, many, 0)}"


def gap(rows: int) -> GridColumn:
    """Stands for columns that are left out."""
    return GridColumn("…", (GridCell("…"),) * rows)


def _start(s: Schedule, buffer: Buffer, rank: int) -> int:
    """The position on the whole vector at which the rank's buffer begins; -1 for scratch."""
    if buffer is Buffer.SCRATCH:
        return -1
    return 0 if buffer is Buffer.DATA else s.postcondition(rank).start
