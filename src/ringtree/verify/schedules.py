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
from ringtree.ir.schedule import Schedule
from ringtree.ir.spec import check, describe
from ringtree.verify.moves import Ints, Layout, Moves
from ringtree.verify.wording import ProofError, promise_in_words, ranks_in_words, title, value_in_words

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
    moves = Moves.of(schedule)
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


def _start(s: Schedule, layout: Layout) -> _State:
    reduces = s.promise.reduces
    label = np.full(layout.cells, NOTHING, dtype=np.int64)
    sets = np.zeros((layout.cells if reduces else 0, (s.ranks + 63) // 64), dtype=np.uint64)
    for rank in range(s.ranks):
        held = s.promise.held(rank, s.ranks, s.chunks, s.root or 0)
        here = layout.held(s, rank)
        label[here] = np.arange(held.start, held.stop) + (0 if reduces else rank * s.chunks)
        if reduces:
            sets[here, rank // 64] = np.uint64(1 << rank % 64)
    return _State(label, sets)


def _play(moves: Moves, state: _State, repeats: bool) -> None:
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


def _wanted(s: Schedule, layout: Layout) -> _Wanted:
    columns: list[tuple[Ints, Ints, Ints, Ints, Ints]] = []
    for rank in range(s.ranks):
        position, label, origin = s.promise.promised(rank, s.ranks, s.chunks, s.root or 0)
        owed = layout.owed(s, rank)
        cell = np.arange(owed.start, owed.stop)
        columns.append((np.full_like(position, rank), position, cell, label, origin))
    rank_, position, cell, label, origin = (np.concatenate(c) for c in zip(*columns, strict=True))
    code = np.where(origin == REDUCED, label, label + (0 if s.promise.reduces else origin * s.chunks))
    return _Wanted(rank_, position, cell, label, origin, code)


def _read(s: Schedule, state: _State, cell: int) -> tuple[int, list[int]]:
    """What a cell holds, as (label, origins)."""
    label = int(state.label[cell])
    if label < 0:
        return label, []
    if not len(state.sets):
        return label % s.chunks, [label // s.chunks]
    return label, [r for r in range(s.ranks) if int(state.sets[cell, r // 64]) >> r % 64 & 1]


def _explain(s: Schedule, moves: Moves, end: _State, wanted: _Wanted, which: int) -> ProofError:
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
        f"{title(s)}: rank {rank} chunk {chunk}: expected {expected}; there was {there}",
        rank=rank,
        chunk=chunk,
        round=int(moves.rows.round[row]) if row >= 0 else -1,
    )


def _describe_spoiling(s: Schedule, moves: Moves, row: int) -> str:
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
