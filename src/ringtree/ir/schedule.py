"""A schedule: all transfers of a collective, with source, target, chunks, and whether they are stored or reduced.

A schedule is a list of blocks; a block is columns of transfers, repeated `times`, moved by `shift` each time. So a
ring over n ranks is two blocks of n rows, and a chain pipelined over m pieces is one block repeated m times.

Order. A round reads the state at its start. The listed order per (rank, buffer, chunk) alone defines every dependence
(read after write, write after read, write after write, and the order of reductions). Rounds are not barriers: a
transfer may start as soon as its dependences are done.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import IntEnum
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ringtree.ir.collective import Collective
from ringtree.ir.collective import collective as find_collective

Column = NDArray[np.int32]


class Buffer(IntEnum):
    """A chunk's buffer. A schedule uses DATA, or INPUT and OUTPUT; SCRATCH goes with either.

    DATA is input and output as one buffer, indexed by position on the whole vector: the in-place view, in which
    composition is concatenation. INPUT and OUTPUT are indexed from the start of the rank's own window.
    """

    DATA = 0
    INPUT = 1
    OUTPUT = 2
    SCRATCH = 3


@dataclass(frozen=True, slots=True, eq=False)
class Transfers:
    """Columns of transfers, one row each, in listed order; `round` never decreases."""

    round: Column
    source: Column
    target: Column
    source_buffer: Column
    source_chunk: Column
    target_buffer: Column
    target_chunk: Column
    count: Column
    reduce: NDArray[np.bool_]

    @staticmethod
    def of(
        source: ArrayLike,
        target: ArrayLike,
        chunk: ArrayLike = 0,
        *,
        to: ArrayLike | None = None,
        count: ArrayLike = 1,
        reduce: ArrayLike = False,
        round: ArrayLike = 0,
        source_buffer: ArrayLike = Buffer.DATA,
        target_buffer: ArrayLike = Buffer.DATA,
    ) -> Transfers:
        """Rows from columns or scalars, broadcast together. `to` is the target's chunk where it differs. ValueError,
        with the column and the row: for a fraction, and for what 32 bits cannot have."""
        to = chunk if to is None else to
        given = (round, source, target, source_buffer, chunk, target_buffer, to, count, reduce)
        columns = [np.asarray(column) for column in given]
        lengths = {len(c) for c in columns if c.ndim} - {1}
        if len(lengths) > 1 or any(c.ndim > 1 for c in columns):
            columns = list(np.broadcast_arrays(*columns))
        rows = lengths.pop() if lengths else 1
        *ints, flags = columns  # written one by one: np.broadcast_arrays takes ten times as long for a few rows
        reduced = np.empty(rows, np.bool_)
        reduced[...] = flags
        return _of([_column(name, c, rows) for name, c in zip(_GIVEN, ints, strict=True)], reduced)

    @staticmethod
    def concatenate(parts: Iterable[Transfers]) -> Transfers:
        """The rows of all `parts` one after another; their rounds are left as they are."""
        rows = list(parts)
        if not rows:
            return Transfers.of([], [], [])
        return Transfers(*(np.concatenate([getattr(p, name) for p in rows]) for name in COLUMNS))

    def __len__(self) -> int:
        return len(self.source)

    def take(self, index: NDArray[np.intp] | NDArray[np.bool_] | slice) -> Transfers:
        """The rows at `index`, in that order."""
        return Transfers(*(getattr(self, name)[index] for name in COLUMNS))

    def same(self, other: Transfers) -> bool:
        """Returns whether both have equal rows in the same order."""
        return len(self) == len(other) and all(
            np.array_equal(getattr(self, name), getattr(other, name)) for name in COLUMNS
        )

    def by_round(self) -> list[Transfers]:
        """The rows split at each change of round."""
        cuts = np.flatnonzero(np.diff(self.round)) + 1
        edges = [0, *cuts.tolist(), len(self)]
        return [self.take(slice(a, b)) for a, b in pairwise(edges) if b > a]


_GIVEN = ("round", "source", "target", "source_buffer", "chunk", "target_buffer", "to", "count")
"""The columns of numbers by the names that `Transfers.of` has for them."""


def _column(name: str, values: NDArray[Any], rows: int) -> Column:
    column = np.empty(rows, np.int32)
    if not values.ndim and _is_kept(values.item()):
        column.fill(values)
        return column
    if values.dtype.kind in "iub":
        column[...] = values
        kept = column == values
    else:
        kept = np.array([_is_kept(value) for value in np.broadcast_to(values, rows).tolist()], np.bool_)
        column[kept] = np.broadcast_to(values, rows)[kept]
    if not kept.all():
        row = int(np.argmin(kept))
        value = np.broadcast_to(values, rows)[row]
        raise ValueError(f"transfers: {name} {value} in row {row}; expected a whole number from -2^31 to 2^31 - 1")
    return column


def _is_kept(value: object) -> bool:
    whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    return whole and -(1 << 31) <= value < 1 << 31  # type: ignore[operator]


def _of(ints: list[Column], reduce: NDArray[np.bool_]) -> Transfers:
    return Transfers(**dict(zip(COLUMNS, ints, strict=False)), reduce=reduce)


MOST_ROWS = 1 << 27
"""The most rows that are written out: 4.4 GB."""

COLUMNS = (
    "round",
    "source",
    "target",
    "source_buffer",
    "source_chunk",
    "target_buffer",
    "target_chunk",
    "count",
    "reduce",
)


class Shift(NamedTuple):
    """The shift from one repetition of a block to the next: ranks modulo n, chunks modulo their buffer's length."""

    source: int = 0
    target: int = 0
    source_chunk: int = 0
    target_chunk: int = 0

    @staticmethod
    def chunk(by: int) -> Shift:
        """Both chunk columns move by the same."""
        return Shift(source_chunk=by, target_chunk=by)


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """`rows`, whose rounds count from 0, done `times` times, moved by `shift` each time."""

    rows: Transfers
    times: int = 1
    shift: Shift = field(default_factory=Shift)

    @property
    def rounds(self) -> int:
        """Rounds of one repetition."""
        return int(self.rows.round[-1]) + 1 if len(self.rows) else 0


@dataclass(frozen=True, slots=True, eq=False)
class Schedule:
    """A collective's schedule over `ranks` ranks, the whole vector cut into `chunks`.

    `scratch` is the number of scratch chunks a rank may use; each is as large as the largest chunk. Participants
    ranks … ranks+switches-1 are switches: they hold scratch only (in-network reduction, multicast). Two schedules are
    equal when their expanded rows are equal, for any blocks; the name does not count.
    """

    name: str
    collective: str
    ranks: int
    chunks: int
    blocks: tuple[Block, ...]
    root: int | None = None
    scratch: int = 0
    switches: int = 0

    @property
    def promise(self) -> Collective:
        """The collective, with its precondition and postcondition."""
        return find_collective(self.collective)

    @property
    def participants(self) -> int:
        """Number of ranks and switches."""
        return self.ranks + self.switches

    @property
    def rounds(self) -> int:
        """Number of rounds, repetitions included."""
        return sum(b.rounds * b.times for b in self.blocks)

    @property
    def transfers(self) -> int:
        """Number of transfers, counted without expanding."""
        return sum(len(b.rows) * b.times for b in self.blocks)

    @property
    def in_place(self) -> bool:
        """Whether the schedule uses DATA (input and output as one buffer)."""
        columns = (c for b in self.blocks for c in (b.rows.source_buffer, b.rows.target_buffer))
        return not any(c.any() and np.any((c == Buffer.INPUT) | (c == Buffer.OUTPUT)) for c in columns)

    def buffer_chunks(self, buffer: Buffer) -> int:
        """The length of that buffer in chunks (of the rank where it is longest)."""
        if buffer is Buffer.DATA:
            return self.chunks
        if buffer is Buffer.SCRATCH:
            return self.scratch
        at = self.ranks - 1 if self.root is None else self.root
        window = self.promise.precondition if buffer is Buffer.INPUT else self.promise.postcondition
        return len(window(at, self.ranks, self.chunks, at))

    def precondition(self, rank: int) -> range:
        """Returns the chunks of the whole vector in the rank's input."""
        return self.promise.precondition(rank, self.ranks, self.chunks, self.root or 0)

    def postcondition(self, rank: int) -> range:
        """Returns the chunks of the whole vector that the rank must have at the end: its output."""
        return self.promise.postcondition(rank, self.ranks, self.chunks, self.root or 0)

    def expand(self) -> Transfers:
        """All transfers as plain rows with absolute rounds. Memory: 33 bytes a transfer. ValueError: if more than
        MOST_ROWS."""
        if self.transfers > MOST_ROWS:
            raise ValueError(
                f"{self.name}: {self.transfers:,} transfers are too many to write out one by one; expected at most "
                f"{MOST_ROWS:,}"
            )
        parts, start = [], 0
        for block in self.blocks:
            parts.append(self.repetitions(block, np.arange(block.times), start))
            start += block.rounds * block.times
        return Transfers.concatenate(parts)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """`buffer_chunks` of each buffer."""
        return np.array([self.buffer_chunks(b) for b in Buffer], dtype=np.int64)

    def repetitions(self, block: Block, which: NDArray[np.int64], start: int = 0) -> Transfers:
        """The repetitions `which` of a block, written out one after the other, rounds counted from `start`."""
        rows, shift, lengths = block.rows, block.shift, np.maximum(self.lengths, 1)
        i = np.repeat(which, len(rows))

        def tiled(column: Column) -> NDArray[np.int64]:
            return np.tile(column.astype(np.int64), len(which))

        def moved_rank(column: Column, by: int) -> NDArray[np.int64]:
            base = tiled(column)
            return np.where(base < self.ranks, (base + i * by) % self.ranks, base) if by else base

        def moved_chunk(column: Column, buffer: Column, by: int) -> NDArray[np.int64]:
            base = tiled(column)
            return (base + i * by) % lengths[tiled(buffer)] if by else base

        return Transfers.of(
            round=start + tiled(rows.round) + np.repeat(np.arange(len(which)), len(rows)) * block.rounds,
            source=moved_rank(rows.source, shift.source),
            target=moved_rank(rows.target, shift.target),
            source_buffer=tiled(rows.source_buffer),
            chunk=moved_chunk(rows.source_chunk, rows.source_buffer, shift.source_chunk),
            target_buffer=tiled(rows.target_buffer),
            to=moved_chunk(rows.target_chunk, rows.target_buffer, shift.target_chunk),
            count=tiled(rows.count),
            reduce=np.tile(rows.reduce, len(which)),
        )

    def chunks_sent(self) -> NDArray[np.int64]:
        """Chunks each participant sends to others, counted without expanding."""
        return self._tally("source")

    def chunks_received(self) -> NDArray[np.int64]:
        """Chunks each participant receives from others, counted without expanding."""
        return self._tally("target")

    def _tally(self, side: str) -> NDArray[np.int64]:
        total = np.zeros(self.participants, dtype=np.int64)
        for b in self.blocks:
            drift = b.shift.target - b.shift.source
            step = getattr(b.shift, side)
            if drift:  # a row may be local in some repetitions: count row by row where that can happen
                gap = (b.rows.target - b.rows.source).astype(np.int64)
                times = b.times - _zeros(gap, drift, b.times, self.ranks)
            else:
                times = np.where(b.rows.source == b.rows.target, 0, b.times)
            counts = np.zeros(self.participants, dtype=np.int64)
            np.add.at(counts, getattr(b.rows, side), b.rows.count * times)
            uneven = np.any(counts[: self.ranks] != counts[0]) or np.any(times != b.times)
            if step and uneven:  # the rare block where the local ranks depend on the repetition
                rows = replace(self, blocks=(b,)).expand()
                rows = rows.take(rows.source != rows.target)
                counts[:] = 0
                np.add.at(counts, getattr(rows, side), rows.count)
            total += counts
        return total

    def then(self, after: Schedule, collective: str, name: str | None = None) -> Schedule:
        """This schedule, then `after`, as one schedule of `collective`: a concatenation. ValueError: unless both are in
        place, of the same ranks, chunks and switches."""
        mine = (self.ranks, self.chunks, self.switches, self.in_place)
        theirs = (after.ranks, after.chunks, after.switches, after.in_place)
        if mine != theirs or not self.in_place:
            raise ValueError(
                "then() joins two in-place schedules of the same ranks, chunks and switches: "
                f"got {self.name} {mine} and {after.name} {theirs}"
            )
        root = self.root if find_collective(collective).rooted else None
        return replace(
            self,
            name=name or self.name,
            collective=collective,
            blocks=self.blocks + after.blocks,
            root=root,
            scratch=max(self.scratch, after.scratch),
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Schedule):
            return NotImplemented
        heads = [(s.collective, s.ranks, s.chunks, s.root, s.scratch, s.switches) for s in (self, other)]
        return heads[0] == heads[1] and self.expand().same(other.expand())

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        from ringtree.ir.text import format_schedule

        return format_schedule(self)


def _zeros(gap: NDArray[np.int64], drift: int, times: int, ranks: int) -> NDArray[np.int64]:
    """The number of repetitions i < times in which gap + i*drift is a multiple of ranks, for each gap."""
    i = np.arange(times, dtype=np.int64)
    table = np.bincount((-i * drift) % ranks, minlength=ranks)
    return table[gap % ranks]
