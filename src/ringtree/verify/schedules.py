"""Proves a schedule: plays it on symbolic contents and compares what every rank ends with to what was promised.

What a chunk holds is a *label* (a position on the whole vector) and the set of ranks whose chunk of that label was
added up in it. Adding two labels, or one rank twice, or what nobody wrote, spoils the chunk; a spoiled chunk that is
overwritten, or that nobody is promised, is no error. As the algorithms look at no value, one run stands for all inputs.
Cost: O(transfers) in numpy; memory: cells * ranks bits where the collective reduces, 8 bytes a cell where it does not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ringtree.ir.collective import REDUCED
from ringtree.ir.schedule import Buffer, Schedule, Transfers
from ringtree.ir.spec import ScheduleError, check, describe
from ringtree.verify.wording import ProofError, promise_in_words, ranks_in_words, value_in_words

Ints = NDArray[np.int64]
Bits = NDArray[np.uint64]

NOTHING = -1
"""As a label: nobody wrote here. Labels below it are spoiled contents: row r of the schedule spoiled it, -2-r."""


@dataclass(frozen=True, slots=True)
class Proof:
    """What was proved, and how much work it was."""

    name: str
    collective: str
    ranks: int
    chunks: int
    root: int | None
    rounds: int
    transfers: int

    def __str__(self) -> str:
        root = "" if self.root is None else f" from root {self.root}"
        return (
            f"{self.name} {self.collective}{root} over {self.ranks} ranks: proved "
            f"({self.rounds} rounds, {self.transfers} transfers)"
        )


def prove(schedule: Schedule) -> Proof:
    """Accepts the schedule if every rank ends with exactly what its collective promises, nothing missing and nothing
    counted twice; else raises ProofError (or ScheduleError where it is not even a legal schedule)."""
    check(schedule)
    moves = _Moves.of(schedule)
    end = _start(schedule, moves.layout)
    _play(moves, end, schedule.promise.repeats)
    wanted = _wanted(schedule, moves.layout)
    wrong = np.flatnonzero(end.label[wanted.cell] != wanted.code)
    if len(end.sets):
        others = (end.sets[wanted.cell] != _contributors(schedule)[wanted.rank]).any(axis=1)
        wrong = np.flatnonzero((end.label[wanted.cell] != wanted.code) | others)
    if len(wrong):
        raise _explain(schedule, moves, end, wanted, int(wrong[0]))
    s = schedule
    return Proof(s.name, s.collective, s.ranks, s.chunks, s.root, s.rounds, s.transfers)


@dataclass(frozen=True, slots=True)
class _Layout:
    """All chunks of all participants' buffers as one run of cells: [buffer, participant] -> first cell, length."""

    first: Ints
    length: Ints
    cells: int

    @staticmethod
    def of(s: Schedule) -> _Layout:
        length = np.zeros((len(Buffer), s.participants), dtype=np.int64)
        length[Buffer.SCRATCH] = s.scratch
        if s.in_place:
            length[Buffer.DATA, : s.ranks] = s.chunks
        else:
            for rank in range(s.ranks):
                where = (rank, s.ranks, s.chunks, s.root or 0)
                length[Buffer.INPUT, rank] = len(s.promise.held(*where))
                length[Buffer.OUTPUT, rank] = len(s.promise.owed(*where))
        ends = np.cumsum(length.T).reshape(length.T.shape).T
        return _Layout(ends - length, length, int(length.sum()))


@dataclass(frozen=True, slots=True)
class _Moves:
    """The schedule's transfers of single chunks, ordered by round and then by *layer*: the k-th write of a round to
    one cell is in layer k, so that a layer writes every cell at most once."""

    layout: _Layout
    rows: Transfers
    row: Ints  # which transfer, of the expanded schedule
    source: Ints  # cells
    target: Ints
    reduce: NDArray[np.bool_]
    rounds: list[tuple[int, list[tuple[int, int]]]]  # first move, and the layers as (first, last+1) move

    @staticmethod
    def of(s: Schedule) -> _Moves:
        layout, rows = _Layout.of(s), s.expand()
        source, target = (_cells(s, layout, rows, side) for side in ("source", "target"))
        count = rows.count.astype(np.int64)
        row = np.repeat(np.arange(len(rows)), count)
        if len(row) > len(rows):
            step = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
            source, target = source[row] + step, target[row] + step
        round_ = rows.round[row]
        layer = _occurrence(round_, target, layout.cells)
        if layer.any():
            order = np.lexsort((layer, round_))
            row, source, target = row[order], source[order], target[order]
            layer, round_ = layer[order], round_[order]
        return _Moves(layout, rows, row, source, target, rows.reduce[row], _batches(round_, layer))

    def before(self, row: int, *, round_only: bool = False) -> _Moves:
        """The moves listed before transfer `row`; with `round_only`, only those of the rounds before its round."""
        rows = self.rows
        low = int(np.searchsorted(rows.round, rows.round[row])) if round_only else row
        keep = self.row < low
        r = self.row[keep]
        round_ = rows.round[r]
        layer = _occurrence(round_, self.target[keep], self.layout.cells)
        return _Moves(
            self.layout, rows, r, self.source[keep], self.target[keep], self.reduce[keep], _batches(round_, layer)
        )


def _cells(s: Schedule, layout: _Layout, rows: Transfers, side: str) -> Ints:
    """The first cell of each row's range; refuses rows outside the rank's own window."""
    rank, buffer = getattr(rows, side), getattr(rows, f"{side}_buffer")
    chunk = getattr(rows, f"{side}_chunk").astype(np.int64)
    outside = np.flatnonzero(chunk + rows.count > layout.length[buffer, rank])
    if len(outside):
        i = int(outside[0])
        name, has = Buffer(int(buffer[i])).name.lower(), int(layout.length[buffer[i], rank[i]])
        raise ScheduleError(
            f"{_title(s)}: {describe(rows, i)}: rank {rank[i]} has {has} chunks of {name}; this needs "
            f"{chunk[i] + rows.count[i]}"
        )
    cells: Ints = layout.first[buffer, rank] + chunk
    return cells


def _occurrence(round_: NDArray[np.int32], target: Ints, cells: int) -> Ints:
    """How many earlier moves of the same round write the same cell, for each move."""
    key = round_.astype(np.int64) * max(cells, 1) + target
    order = np.argsort(key, kind="stable")
    placed = key[order]
    new = np.ones(len(key), dtype=np.bool_)
    new[1:] = placed[1:] != placed[:-1]
    start = np.flatnonzero(new)
    nth = np.empty(len(key), dtype=np.int64)
    nth[order] = np.arange(len(key)) - np.repeat(start, np.diff(np.append(start, len(key))))
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


@dataclass(frozen=True, slots=True)
class _State:
    """What every cell holds. Where the collective reduces, `label` is the label and sets[cell] the origins as bits;
    where it does not, `label` is origin * chunks + label (one origin each) and there are no sets."""

    label: Ints
    sets: Bits


def _contributors(s: Schedule) -> Bits:
    """For each rank the set of its contributors, who are ranks 0, 1, …"""
    many = np.array([len(s.promise.contributors(rank, s.ranks)) for rank in range(s.ranks)])
    word = np.clip(many[:, None] - 64 * np.arange((s.ranks + 63) // 64), 0, 64).astype(np.uint64)
    return np.where(word == 0, np.uint64(0), ~np.uint64(0) >> (np.uint64(64) - word))


def _start(s: Schedule, layout: _Layout) -> _State:
    reduces = s.promise.reduces
    label = np.full(layout.cells, NOTHING, dtype=np.int64)
    sets = np.zeros((layout.cells if reduces else 0, (s.ranks + 63) // 64), dtype=np.uint64)
    for rank in range(s.ranks):
        held = s.promise.held(rank, s.ranks, s.chunks, s.root or 0)
        first = layout.first[Buffer.DATA, rank] + held.start if s.in_place else layout.first[Buffer.INPUT, rank]
        here = slice(first, first + len(held))
        label[here] = np.arange(held.start, held.stop) + (0 if reduces else rank * s.chunks)
        if reduces:
            sets[here, rank // 64] = np.uint64(1 << rank % 64)
    return _State(label, sets)


def _play(moves: _Moves, state: _State, repeats: bool) -> None:
    """Changes `state` to what it is after the moves."""
    label, sets = state.label, state.sets
    for first, layers in moves.rounds:
        here = moves.source[first : layers[-1][1]]
        labels_read = label[here]
        sets_read = sets[here] if len(sets) else sets
        for low, high in layers:
            target, reduce = moves.target[low:high], moves.reduce[low:high]
            arrived = labels_read[low - first : high - first]
            origins = sets_read[low - first : high - first]
            if reduce.any():
                arrived, origins = _added(state, target, arrived, origins, reduce, moves.row[low:high], repeats)
            label[target] = arrived
            if len(sets):
                sets[target] = origins


def _added(
    state: _State,
    target: Ints,
    arrived: Ints,
    origins: Bits,
    reduce: NDArray[np.bool_],
    row: Ints,
    repeats: bool,
) -> tuple[Ints, Bits]:
    """What the targets hold after `arrived` was added to them (where `reduce`) or stored."""
    there = state.label[target]
    spoils = (there != arrived) | (there < 0)
    if len(state.sets):
        already = state.sets[target]
        if not repeats:
            spoils |= (already & origins).any(axis=1)
        origins = np.where(reduce[:, None], already | origins, origins)
    else:
        spoils[:] = True  # a sum of several origins is promised to nobody
    spoils &= reduce
    if spoils.any():
        cause = np.where(there < NOTHING, there, np.where(arrived < NOTHING, arrived, NOTHING - 1 - row))
        arrived = np.where(spoils, cause, arrived)
    return arrived, origins


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The promise to all ranks, as columns; `code` is what _State.label must be."""

    rank: Ints
    position: Ints
    cell: Ints
    label: Ints
    origin: Ints
    code: Ints


def _wanted(s: Schedule, layout: _Layout) -> _Wanted:
    columns: list[tuple[Ints, Ints, Ints, Ints, Ints]] = []
    for rank in range(s.ranks):
        position, label, origin = s.promise.promised(rank, s.ranks, s.chunks, s.root or 0)
        owed = s.promise.owed(rank, s.ranks, s.chunks, s.root or 0)
        first = layout.first[Buffer.DATA, rank] if s.in_place else layout.first[Buffer.OUTPUT, rank] - owed.start
        columns.append((np.full_like(position, rank), position, first + position, label, origin))
    rank_, position, cell, label, origin = (np.concatenate(c) for c in zip(*columns, strict=True))
    code = np.where(origin == REDUCED, label, label + (0 if s.promise.reduces else origin * s.chunks))
    return _Wanted(rank_, position, cell, label, origin, code)


def _title(s: Schedule) -> str:
    return f"{s.name} {s.collective} over {s.ranks} ranks"


def _read(s: Schedule, state: _State, cell: int) -> tuple[int, list[int]]:
    """What a cell holds, as (label, origins)."""
    label = int(state.label[cell])
    if label < 0:
        return label, []
    if not len(state.sets):
        return label % s.chunks, [label // s.chunks]
    return label, [r for r in range(s.ranks) if int(state.sets[cell, r // 64]) >> r % 64 & 1]


def _explain(s: Schedule, moves: _Moves, end: _State, wanted: _Wanted, which: int) -> ProofError:
    """The refusal of promise number `which`: where the wrong thing got in, or the last write."""
    rank, chunk, cell = (int(c[which]) for c in (wanted.rank, wanted.position, wanted.cell))
    contributors = s.promise.contributors(rank, s.ranks)
    expected = promise_in_words(int(wanted.label[which]), int(wanted.origin[which]), contributors)
    label, origins = _read(s, end, cell)
    written = moves.row[moves.target == cell]
    row = NOTHING - 1 - label if label < NOTHING else int(written.max(initial=-1))
    if label < NOTHING:
        there = f"what {_describe_spoiling(s, moves, row)}"
    elif row < 0:
        there = f"{value_in_words(label, origins)}, as at the start: no transfer writes it"
    else:
        missing = sorted(set(contributors) - set(origins))
        lacks = f" (missing {ranks_in_words(missing)})" if s.promise.reduces and origins and missing else ""
        there = f"{value_in_words(label, origins)}{lacks}, last written in {describe(moves.rows, row)}"
    return ProofError(
        f"{_title(s)}: rank {rank} chunk {chunk}: expected {expected}; there was {there}",
        rank=rank,
        chunk=chunk,
        round=int(moves.rows.round[row]) if row >= 0 else -1,
    )


def _describe_spoiling(s: Schedule, moves: _Moves, row: int) -> str:
    """How transfer `row` added what may not be added: plays up to it once more."""
    before_round, before_row = _start(s, moves.layout), _start(s, moves.layout)
    _play(moves.before(row, round_only=True), before_round, s.promise.repeats)
    _play(moves.before(row), before_row, s.promise.repeats)
    reason = ""
    for i in np.flatnonzero(moves.row == row).tolist():
        label, origins = _read(s, before_round, int(moves.source[i]))
        onto, already = _read(s, before_row, int(moves.target[i]))
        twice = sorted(set(origins) & set(already))
        if label >= 0 and label == onto and s.promise.reduces and (s.promise.repeats or not twice):
            continue  # another chunk of the range
        reason = f"{value_in_words(label, origins)} to {value_in_words(onto, already)}"
        if label == onto >= 0 and twice:
            reason += f" (counting {ranks_in_words(twice)} twice)"
        break
    return f"{describe(moves.rows, row)} made by adding {reason}"
