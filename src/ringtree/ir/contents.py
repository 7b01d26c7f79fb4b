"""Symbolic contents: the content of every chunk of every rank while a schedule is played.

A content is a *label* (a position on the whole vector) and the set of ranks whose chunk of that label was added up in
it. Adding two labels, or one rank twice, or an unwritten chunk, spoils the chunk. As schedules do not depend on values,
one play stands for all inputs. Cost: O(transfers) in numpy; memory: cells * ranks bits where the collective
reduces, 8 bytes a cell where it does not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ringtree.ir.collective import REDUCED
from ringtree.ir.moves import CellLayout, Ints, Moves
from ringtree.ir.schedule import Schedule

Bits = NDArray[np.uint64]

NOTHING = -1
"""The label of an unwritten cell. Labels below it are spoiled contents: -2-r where row r of the schedule spoiled it."""


class PlayedRound(NamedTuple):
    """One round that was played: its moves are those from `first` to before `last`, and the content that each of them
    carried."""

    first: int
    last: int
    carried: Contents


@dataclass(frozen=True, slots=True)
class Contents:
    """The contents of cells. Where the collective reduces, `label` is the label and sets[cell] the origins as bits;
    where it does not, `label` is origin * chunks + label (one origin each) and there are no sets."""

    label: Ints
    sets: Bits

    @staticmethod
    def at_start(s: Schedule, layout: CellLayout) -> Contents:
        """Every cell before the first round: each rank's input, and nothing elsewhere."""
        reduces = s.promise.reduces
        label = np.full(layout.cells, NOTHING, dtype=np.int64)
        sets = np.zeros((layout.cells if reduces else 0, (s.ranks + 63) // 64), dtype=np.uint64)
        for rank in range(s.ranks):
            precondition = s.precondition(rank)
            here = layout.precondition(s, rank)
            label[here] = np.arange(precondition.start, precondition.stop) + (0 if reduces else rank * s.chunks)
            if reduces:
                sets[here, rank // 64] = np.uint64(1 << rank % 64)
        return Contents(label, sets)

    @staticmethod
    def nbytes(s: Schedule, moving: int) -> int:
        """The memory of every cell's content, or of `moving` cells' where that is more; without taking it."""
        cells = max(CellLayout.of(s).cells, moving)
        return cells * 8 * (1 + (-(-s.ranks // 64) if s.promise.reduces else 0))

    def read(self, s: Schedule, cell: int) -> tuple[int, list[int]]:
        """A cell's content as (label, origins)."""
        label = int(self.label[cell])
        if label < 0:
            return label, []
        if not len(self.sets):
            return label % s.chunks, [label // s.chunks]
        return label, [r for r in range(s.ranks) if int(self.sets[cell, r // 64]) >> r % 64 & 1]

    def take(self, index: Ints) -> Contents:
        """A copy of the cells at `index`."""
        return Contents(self.label[index], self.sets[index] if len(self.sets) else self.sets)


@dataclass(frozen=True, slots=True)
class Promised:
    """The postcondition of all ranks as columns of promises; `code`: the required Contents.label of `cell`; `origin`
    may be REDUCED."""

    rank: Ints
    position: Ints
    cell: Ints
    label: Ints
    origin: Ints
    code: Ints
    everyone: Bits  # by rank: the contributors of a reduction there

    @staticmethod
    def of(s: Schedule, layout: CellLayout) -> Promised:
        """Returns the postcondition of all ranks, a row per chunk."""
        columns: list[tuple[Ints, Ints, Ints, Ints, Ints]] = []
        for rank in range(s.ranks):
            position, label, origin = s.promise.promised(rank, s.ranks, s.chunks, s.root or 0)
            postcondition = layout.postcondition(s, rank)
            cell = np.arange(postcondition.start, postcondition.stop)
            columns.append((np.full_like(position, rank), position, cell, label, origin))
        rank_, position, cell, label, origin = (np.concatenate(c) for c in zip(*columns, strict=True))
        code = np.where(origin == REDUCED, label, label + (0 if s.promise.reduces else origin * s.chunks))
        return Promised(rank_, position, cell, label, origin, code, contributors(s))

    def kept(self, contents: Contents) -> NDArray[np.bool_]:
        """Whether `contents` keeps each promise, [promises]."""
        kept: NDArray[np.bool_] = contents.label[self.cell] == self.code
        if len(contents.sets):
            kept &= (contents.sets[self.cell] == self.everyone[self.rank]).all(axis=1)
        return kept


def contributors(s: Schedule) -> Bits:
    """The set of each rank's contributors, who are ranks 0, 1, …"""
    many = np.array([len(s.promise.contributors(rank, s.ranks)) for rank in range(s.ranks)])
    word = np.clip(many[:, None] - 64 * np.arange((s.ranks + 63) // 64), 0, 64).astype(np.uint64)
    return np.where(word == 0, np.uint64(0), ~np.uint64(0) >> (np.uint64(64) - word))


def play(moves: Moves, contents: Contents, repeats: bool) -> None:
    """Applies the moves to `contents`. `repeats`: a contribution that arrives twice spoils nothing."""
    for _ in rounds(moves, contents, repeats):
        pass


def rounds(moves: Moves, contents: Contents, repeats: bool) -> Iterator[PlayedRound]:
    """As `play`, but yields after each round with moves: `contents` is then the state after that round."""
    label, sets = contents.label, contents.sets
    for first, layers in moves.rounds:
        last = layers[-1][1]
        carried = contents.take(moves.source[first:last])
        for low, high in layers:
            target, reduce = moves.target[low:high], moves.reduce[low:high]
            arrived = carried.label[low - first : high - first]
            origins = carried.sets[low - first : high - first]
            if reduce.any():
                arrived, origins = _added(contents, target, arrived, origins, reduce, moves.row[low:high], repeats)
            label[target] = arrived
            if len(sets):
                sets[target] = origins
        yield PlayedRound(first, last, carried)


def _added(
    contents: Contents,
    target: Ints,
    arrived: Ints,
    origins: Bits,
    reduce: NDArray[np.bool_],
    row: Ints,
    repeats: bool,
) -> tuple[Ints, Bits]:
    """The targets' contents after `arrived` was added to them (where `reduce`) or stored."""
    there = contents.label[target]
    spoils = (there != arrived) | (there < 0)
    if len(contents.sets):
        already = contents.sets[target]
        if not repeats:
            spoils |= (already & origins).any(axis=1)
        origins = np.where(reduce[:, None], already | origins, origins)
    else:
        spoils[:] = True  # no promise asks for a sum of several origins
    spoils &= reduce
    if spoils.any():
        cause = np.where(there < NOTHING, there, np.where(arrived < NOTHING, arrived, NOTHING - 1 - row))
        arrived = np.where(spoils, cause, arrived)
    return arrived, origins
