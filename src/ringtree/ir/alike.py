"""Ranks whose programs are equal but for the numbers of peers and chunks: one of them is lowered for all.

The peers, the chunks of a rank's own buffers and the labels in its rows are renumbered. Numbers go by first mention;
where rows have several chunks, by the rows that a chunk is in. Ranks with equal renumbered rows have equal renumbered
programs; any number of ranks of a ring or a torus is of a few kinds. Cost: O(chunks moved) in numpy, and a program a
kind in Python.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ringtree.ir.lower import Columns, columns, write
from ringtree.ir.program import Instruction
from ringtree.ir.ranges import elements
from ringtree.ir.schedule import Buffer, Schedule, Transfers

Ints = NDArray[np.int64]
DENSE = 1 << 25
"""More keys than this are renumbered by sorting."""


@dataclass(frozen=True, slots=True)
class Alike:
    """`ranks` [alike] that are alike, and the instructions of the first, without the copies into the output at the end.

    Rank ranks[i] has peers[i, k] and labels[i, k] where ranks[0] has peers[0, k] and labels[0, k]. `finish`: the copies
    at the end of all of them, as columns (index into ranks, first label, chunks), in order for each.
    """

    ranks: Ints
    code: tuple[Instruction, ...]
    peers: Ints
    labels: Ints
    finish: tuple[Ints, Ints, Ints]


def alike(schedule: Schedule) -> Iterator[Alike]:
    """All ranks of a schedule, by kinds of ranks that are alike."""
    shared = columns(schedule)
    renumbered = _renumbered(schedule, shared)
    for ranks in _kinds(renumbered):
        found = _lowered(schedule, shared, renumbered, ranks)
        if found is not None:
            yield found
            continue
        for rank in ranks:
            alone = _lowered(schedule, shared, renumbered, np.array([rank]))
            assert alone is not None
            yield alone


@dataclass(frozen=True, slots=True)
class _Ragged:
    """Columns with a range of rows for each rank: rank r's is first[r]:first[r+1]."""

    first: Ints
    columns: tuple[Ints, ...]

    def of(self, ranks: Ints, column: int) -> Ints:
        """[ranks, length]: a column of ranks whose ranges are equally long."""
        length = int(self.first[ranks[0] + 1] - self.first[ranks[0]])
        table: Ints = self.columns[column][self.first[ranks][:, None] + np.arange(length)]
        return table


@dataclass(frozen=True, slots=True)
class _Renumbered:
    """Per rank: its rows (the schedule's row; renumbered: shape, peer, ordinal, ranges), the chunks it touches (key;
    renumbered: chunk, window), and their labels (label; renumbered)."""

    rows: _Ragged
    cells: _Ragged
    labels: _Ragged


def _renumbered(schedule: Schedule, shared: Columns) -> _Renumbered:
    rows, n = shared.rows, schedule.ranks
    row, at, sends = _sides(rows)
    local = rows.source[row] == rows.target[row]
    bounds = np.searchsorted(at, np.arange(n + 1))
    opens = np.diff(rows.round[row], prepend=-1) != 0
    opens[bounds[:-1][bounds[:-1] < len(row)]] = True
    count = rows.count[row].astype(np.int64)
    shape = (opens * 2 + (rows.reduce[row] & ~sends)) * 4 + np.where(sends, 1, np.where(local, 2, 0))
    shape = (shape * 4 + np.where(sends, 0, rows.target_buffer[row])) * 4 + np.where(
        sends | local, rows.source_buffer[row], 0
    )
    shape = shape * 2 + shared.multicast[row]
    peer = np.where(local, n, np.where(sends, rows.target[row], rows.source[row])).astype(np.int64)
    ordinal = np.where(sends, 0, shared.ordinal[row])
    columns = (row, peer, shape, count, ordinal, _names(at, peer, n + 1))

    # the chunks that a row touches on this rank: read ones, then written ones
    start = np.cumsum([0, *schedule.lengths])
    reads = start[rows.source_buffer[row]] + rows.source_chunk[row]
    writes = start[rows.target_buffer[row]] + rows.target_chunk[row]
    use, cell = _spread(np.where(sends | local, reads, writes), count, np.where(local, writes, -1))
    cell_at = at[use // 4]
    data, inside = cell < start[1], np.zeros(len(cell), dtype=np.int64)
    for bit, (low, high) in enumerate(_windows(schedule)):
        inside |= (data & (cell >= low[cell_at]) & (cell < high[cell_at])).astype(np.int64) << bit
    where = np.searchsorted(cell_at, np.arange(n + 1))
    several = int(count.max(initial=1)) > 1
    cells = cell, cell_at, int(start[-1])
    if several:
        cell, cell_name, inside = _by_use(*cells, use, (use - 4 * bounds[cell_at]) * 4 + inside, inside)
    else:
        cell_name = _names(cell_at, cell, int(start[-1]))
    touched = _Ragged(where, (cell, cell_name, inside))
    return _Renumbered(
        _Ragged(bounds, columns), touched, _labels(schedule, shared, row, at, bounds, use, cells, touched)
    )


def _labels(
    schedule: Schedule,
    shared: Columns,
    row: Ints,
    at: Ints,
    bounds: Ints,
    use: Ints,
    cells: tuple[Ints, Ints, int],
    touched: _Ragged,
) -> _Ragged:
    """Per rank, the size labels of its rows' chunks and of the DATA chunks that it touches: (label; renumbered). Where
    a chunk's label is its number, as often, `touched` has both columns."""
    rows, s, (cell, cell_at, _) = shared.rows, schedule, cells
    if (
        int(cell.max(initial=0)) < s.chunks
        and not s.promise.transposes
        and all(np.array_equal(shared.label, chunk) for chunk in (rows.source_chunk, rows.target_chunk))
    ):
        return _Ragged(touched.first, touched.columns[:2])
    data = cell < s.buffer_chunks(Buffer.DATA)
    cell_label = cell + (cell_at * s.chunks if s.promise.transposes else 0)
    label_use, label = _spread(shared.label[row], rows.count[row].astype(np.int64))
    label_at, label, label_use = _joined(
        (at[label_use // 4], label, label_use + 2), (cell_at[data], cell_label[data], use[data])
    )
    labels = label, label_at, int(label.max(initial=0)) + 1
    where = np.searchsorted(label_at, np.arange(s.ranks + 1))
    if int(rows.count.max(initial=1)) > 1:
        label, name, _ = _by_use(*labels, label_use, label_use - 4 * bounds[label_at], label)
        return _Ragged(where, (label, name))
    return _Ragged(where, (label, _names(label_at, label, labels[2])))


def _sides(rows: Transfers) -> tuple[Ints, Ints, NDArray[np.bool_]]:
    """Each row as its ends see it: (row, rank, whether it sends), by rank. In a round a rank first sends, then
    receives, as listed; but it adds its own chunks before others', at the same cost."""
    away = np.flatnonzero(rows.source != rows.target)
    row = np.concatenate([np.arange(len(rows)), away])
    at = np.concatenate([rows.target, rows.source[away]]).astype(np.int64)
    receives = np.arange(len(row)) < len(rows)
    order = np.lexsort((row, receives, rows.round[row], at))
    row, at, receives = row[order], at[order], receives[order]
    joins = receives & rows.reduce[row]
    for column in (at, rows.round[row], rows.target_buffer[row], rows.target_chunk[row], rows.count[row]):
        joins[1:] &= column[1:] == column[:-1]
    joins[1:] &= receives[:-1]
    own = joins & (rows.source[row] == rows.target[row])
    if own.any():
        order = np.lexsort((np.arange(len(row)), joins * 2 - own, np.cumsum(~joins)))
        row, at, receives = row[order], at[order], receives[order]
    return row, at, ~receives


def _spread(first: Ints, count: Ints, second: Ints | None = None) -> tuple[Ints, Ints]:
    """Ranges chunk by chunk: `count` from `first`, and where there is a `second` (not -1) as many from there. Each
    chunk comes with 4 * the position of its range, plus 1 for the second range."""
    use = 4 * np.arange(len(first))
    if second is not None and np.any(second >= 0):
        use = np.repeat(use, np.where(second >= 0, 2, 1))
        use[1:] += np.diff(use) == 0
        first, count = np.where(use % 4 == 1, second[use // 4], first[use // 4]), count[use // 4]
    if count.max(initial=1) == 1:
        return use, first
    which, at = elements(first, count)
    return use[which], at


def _joined(one: tuple[Ints, Ints, Ints], two: tuple[Ints, Ints, Ints]) -> tuple[Ints, Ints, Ints]:
    """Both streams (rank, and two more columns), sorted by rank: for each rank those of the one, then of the other."""
    ranks = max(int(at[-1]) + 1 if len(at) else 0 for at, *_ in (one, two))
    ones, twos = (np.bincount(at, minlength=ranks) for at, *_ in (one, two))
    order = np.concatenate(
        [
            np.arange(len(one[0])) + (np.cumsum(twos) - twos)[one[0]],
            np.arange(len(two[0])) + np.cumsum(ones)[two[0]],
        ]
    )
    columns = np.empty((2, len(order)), dtype=np.int64)
    for column, k in zip(columns, (1, 2), strict=True):
        column[order] = np.concatenate([one[k], two[k]])
    return np.repeat(np.arange(ranks), ones + twos), columns[0], columns[1]


def _windows(schedule: Schedule) -> tuple[tuple[Ints, Ints], tuple[Ints, Ints]]:
    """Returns first and last chunk (exclusive) of each rank's precondition and postcondition, [ranks] each."""
    s, ranks = schedule, range(schedule.ranks)
    spans = [[window(r) for r in ranks] for window in (s.precondition, s.postcondition)]
    precondition, postcondition = ((np.array([x.start for x in w]), np.array([x.stop for x in w])) for w in spans)
    return precondition, postcondition


def _names(at: Ints, key: Ints, keys: int) -> Ints:
    """Each key's new number: how many other keys its rank mentions before it. `at` is sorted."""
    whole, size = at * keys + key, (int(at[-1]) + 1) * keys if len(at) else 0
    if size <= max(DENSE, 4 * len(at)):
        table = np.empty(size, dtype=np.int64)
        table[whole[::-1]] = np.arange(len(whole))[::-1]  # the last one written is the first one mentioned
        first = table[whole]
    else:
        _, index, group = np.unique(whole, return_index=True, return_inverse=True)
        first = index[group.reshape(-1)]
    new = first == np.arange(len(whole))
    numbers = np.cumsum(new) - 1
    before = np.searchsorted(at, at, side="left") if len(at) < 1000 else np.repeat(*_starts(at))
    names: Ints = numbers[first] - numbers[before]
    return names


def _starts(at: Ints) -> tuple[Ints, Ints]:
    start = np.flatnonzero(np.diff(at, prepend=-1))
    return start, np.diff(start, append=len(at))


def _by_use(key: Ints, at: Ints, keys: int, use: Ints, mention: Ints, also: Ints) -> tuple[Ints, Ints, Ints]:
    """(key, name, also), names by all mentions of a key: `mention` is the mention, `use` its range. Keys of a rank with
    equal mentions may be exchanged. Within a range names are sorted: the order there is that of the rank's memory."""
    whole, size = at * keys + key, (int(at[-1]) + 1) * keys if len(at) else 0
    if size <= max(DENSE, 4 * len(at)):
        group = whole
        whole = np.arange(size)
    else:
        whole, group = np.unique(whole, return_inverse=True)
    mark = np.random.default_rng(1).integers(1, 1 << 63, int(mention.max(initial=0)) + 1, dtype=np.uint64)
    marks = np.zeros(len(whole), dtype=np.uint64)
    np.add.at(marks, group, mark[mention])
    mentioned = np.flatnonzero(marks)
    rank = whole[mentioned] // keys
    order = np.lexsort((marks[mentioned], rank))
    name = np.empty(len(whole), dtype=np.int64)
    name[mentioned[order]] = np.arange(len(order)) - np.searchsorted(rank, rank)
    names = name[group]
    ranges = np.cumsum(np.diff(use, prepend=-1) != 0)
    order = np.argsort(ranges * (int(names.max(initial=0)) + 1) + names)
    return key[order], names[order], also[order]


def _kinds(renumbered: _Renumbered) -> Iterator[Ints]:
    """The groups of ranks whose renumbered rows are equal."""
    columns = [(renumbered.rows, k) for k in (2, 3, 4, 5)] + [
        (renumbered.cells, 1),
        (renumbered.cells, 2),
        (renumbered.labels, 1),
    ]
    sizes = np.stack([np.diff(part.first) for part in (renumbered.rows, renumbered.cells, renumbered.labels)], axis=1)
    _, group = np.unique(sizes, axis=0, return_inverse=True)
    for g in range(int(group.max(initial=-1)) + 1):
        left = np.flatnonzero(group.reshape(-1) == g)
        if len(left) == 1:
            yield left
            continue
        tables = [part.of(left, k) for part, k in columns]
        digest = np.zeros(len(left), dtype=np.uint64)
        weights = np.random.default_rng(0)
        for table in tables:
            digest += table.astype(np.uint64) @ weights.integers(1, 1 << 63, table.shape[1], dtype=np.uint64)
        rest = np.arange(len(left))
        while len(rest):
            same = rest[digest[rest] == digest[rest[0]]]
            for table in tables:
                same = same[(table[same] == table[rest[0]]).all(axis=1)]
            yield left[same]
            rest = np.setdiff1d(rest, same, assume_unique=True)


def _lowered(schedule: Schedule, shared: Columns, renumbered: _Renumbered, ranks: Ints) -> Alike | None:
    """The ranks' lowered code; None where chunks are gathered, which depends on their positions in memory."""
    row, peer = renumbered.rows.of(ranks, 0), renumbered.rows.of(ranks, 1)
    program, placement = write(schedule, shared, int(ranks[0]), row[0])
    if placement.gathered and len(ranks) > 1:
        return None
    finish = len(list(placement.finish())) if schedule.in_place else 0
    code = program.instructions[: len(program.instructions) - finish]
    cell = _named(renumbered.cells.of(ranks, 0), renumbered.cells.of(ranks[:1], 1)[0])
    copies = np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64)
    if schedule.in_place:
        copies = _finish(schedule, ranks, cell, placement.written, placement.direct)
    return Alike(
        ranks,
        code,
        _named(peer, renumbered.rows.of(ranks[:1], 5)[0]),
        _named(renumbered.labels.of(ranks, 0), renumbered.labels.of(ranks[:1], 1)[0]),
        copies,
    )


def _named(found: Ints, names: Ints) -> Ints:
    """[ranks, names]: each rank's own number of every name, from rows in the same order."""
    return found[:, np.unique(names, return_index=True)[1]]


def _finish(
    schedule: Schedule, ranks: Ints, cell: Ints, written: NDArray[np.bool_], direct: bool
) -> tuple[Ints, Ints, Ints]:
    """The copies of Placement.finish: chunks of the postcondition that are still in the input, then chunks kept in
    scratch."""
    s = schedule
    (precondition, precondition_end), (postcondition, postcondition_end) = (
        (w[0][ranks], w[1][ranks]) for w in _windows(s)
    )
    has = np.zeros((len(ranks), s.chunks), dtype=np.bool_)
    mine = (cell[0] < s.chunks) & written[np.minimum(cell[0], s.chunks - 1)]
    np.put_along_axis(has, cell[:, mine], True, axis=1)
    position = np.arange(s.chunks)
    within = (position >= postcondition[:, None]) & (position < postcondition_end[:, None])
    untouched = ~has & within & (position >= precondition[:, None]) & (position < precondition_end[:, None])
    parts = [_runs(untouched)] + ([] if direct else [_runs(has & within)])
    who, start, count = (np.concatenate(c) for c in zip(*parts, strict=True))
    order = np.argsort(who, kind="stable")
    first = ranks[who] * s.chunks if s.promise.transposes else 0
    return who[order], (start + first)[order], count[order]


def _runs(flags: NDArray[np.bool_]) -> tuple[Ints, Ints, Ints]:
    """The maximal runs of True in each row: (row, start, length)."""
    edged = np.zeros((flags.shape[0], flags.shape[1] + 2), dtype=np.int8)
    edged[:, 1:-1] = flags
    change = np.diff(edged, axis=1)
    who, start = np.nonzero(change == 1)
    _, end = np.nonzero(change == -1)
    return who, start, end - start
