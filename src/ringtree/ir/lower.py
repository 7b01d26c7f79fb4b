"""Schedule -> programs: from the global view to each rank's.

In every round a rank first sends the chunks that the round reads, then receives. Transfers of one range to several
ranks share one slot; stores and reductions of a round into one range become one many-source reduction, in listed order;
a range that is sent on right after it was written is written to its slot at the same time; scratch that is not read
again is not written. Cost: O(transfers) for the columns all ranks share, then O(own transfers) in Python.
"""

from __future__ import annotations

from bisect import bisect
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ringtree.ir.peephole import drop_dead_scratch, fuse_slot, is_aliasable
from ringtree.ir.placement import Placement
from ringtree.ir.program import Instruction, Kind, Operand, Program, Space
from ringtree.ir.ranges import positions
from ringtree.ir.schedule import Buffer, Schedule, Transfers

MOST_MULTICASTS = 8
"""The most of a rank's in one program: as many as the shortest lane holds."""


def lower(schedule: Schedule) -> tuple[Program, ...]:
    """Every rank's program, in order of ranks. ValueError: if the schedule has switches."""
    shared = columns(schedule)
    return tuple(_program(schedule, shared, rank) for rank in range(schedule.ranks))


def lower_rank(schedule: Schedule, rank: int) -> Program:
    """One rank's program; the same as lower(schedule)[rank] without writing the others."""
    return _program(schedule, columns(schedule), rank)


class Columns(NamedTuple):
    """The data shared by all ranks: the rows, each row's size label, its ordinal in its lane (-1: local), and whether
    its message is part of a multicast."""

    rows: Transfers
    label: NDArray[np.int64]
    ordinal: NDArray[np.int64]
    multicast: NDArray[np.bool_]


def columns(schedule: Schedule) -> Columns:
    """The columns that lowering reads. ValueError: if the schedule has switches."""
    if schedule.switches:
        raise ValueError(f"{schedule.name}: has {schedule.switches} switches; programs are written for ranks only")
    rows = schedule.expand()
    rows, label = _followed(schedule, rows) if schedule.promise.transposes else (rows, _labels(schedule, rows))
    return Columns(rows, label, _ordinals(rows), _multicasts(rows, schedule.ranks))


def _multicasts(rows: Transfers, ranks: int) -> NDArray[np.bool_]:
    """Whether a row is of a multicast: all that its source sends in its round is one range, once to each other rank.

    None of a source that would have more than MOST_MULTICASTS: a rank waits until all others have room for one, so
    more than a lane holds could make ranks wait for each other.
    """
    found = np.zeros(len(rows), dtype=np.bool_)
    sent = np.flatnonzero(rows.source != rows.target)
    if ranks < 3 or len(sent) < ranks - 1:
        return found
    round_, source, target = (c[sent].astype(np.int64) for c in (rows.round, rows.source, rows.target))
    order = np.lexsort((target, source, round_))
    step = (round_ * ranks + source)[order]  # all that a rank sends in a round
    start = np.flatnonzero(np.diff(step, prepend=-1))
    size = np.diff(start, append=len(step))
    apart = np.ones(len(step), dtype=np.bool_)  # from the row before: another target, the same range
    apart[1:] = np.diff(target[order]) != 0
    for column in (rows.source_buffer, rows.source_chunk, rows.count):
        apart[1:] &= np.diff(column[sent][order]) == 0
    apart[start] = True
    whole = (size == ranks - 1) & np.logical_and.reduceat(apart, start)
    many = np.bincount(source[order][start[whole]], minlength=ranks) > MOST_MULTICASTS
    whole &= ~many[source[order][start]]
    found[sent[order]] = np.repeat(whole, size)
    return found


def _ordinals(rows: Transfers) -> NDArray[np.int64]:
    """A sender publishes a round's ranges in order of first mention, each to its targets in listed order."""
    m = len(rows)
    index = np.arange(m, dtype=np.int64)
    order = np.lexsort((rows.count, rows.source_chunk, rows.source_buffer, rows.source, rows.round))  # stable
    new = np.zeros(m, dtype=np.bool_)
    for column in (rows.round, rows.source, rows.source_buffer, rows.source_chunk, rows.count):
        new[1:] |= np.diff(column[order]) != 0
    first = np.empty(m, dtype=np.int64)
    first[order] = order[np.maximum.accumulate(np.where(new, index, 0))]
    lane = rows.source.astype(np.int64) * (1 + int(rows.target.max(initial=0))) + rows.target
    order = np.lexsort((first, lane * (1 + int(rows.round.max(initial=0))) + rows.round))
    order = order[rows.source[order] != rows.target[order]]
    lane = lane[order]
    start = np.flatnonzero(np.diff(lane, prepend=-1))
    ordinal = np.full(m, -1, dtype=np.int64)
    if len(order):
        ordinal[order] = positions(np.diff(start, append=len(order)))
    return ordinal


def _labels(schedule: Schedule, rows: Transfers) -> NDArray[np.int64]:
    """The size label of each row's chunks: given by the position, except in scratch, where it is that of the last
    stored chunk."""
    starts = np.zeros((len(Buffer), schedule.ranks), dtype=np.int64)
    for rank in range(schedule.ranks):
        starts[Buffer.INPUT, rank] = schedule.precondition(rank).start
        starts[Buffer.OUTPUT, rank] = schedule.postcondition(rank).start
    label: NDArray[np.int64] = rows.source_chunk + starts[rows.source_buffer, rows.source]
    if schedule.scratch:
        holds = np.zeros((schedule.ranks, schedule.scratch), dtype=np.int64)
        edges = [0, *(np.flatnonzero(np.diff(rows.round)) + 1).tolist(), len(rows)]
        for low, high in pairwise(edges):
            part = slice(low, high)
            kept = rows.source_buffer[part] == Buffer.SCRATCH
            label[part][kept] = holds[rows.source[part][kept], rows.source_chunk[part][kept]]
            for i in (low + np.flatnonzero(rows.target_buffer[part] == Buffer.SCRATCH)).tolist():
                span = slice(rows.target_chunk[i], rows.target_chunk[i] + rows.count[i])
                holds[rows.target[i], span] = label[i] + np.arange(rows.count[i])
    return label


def _followed(schedule: Schedule, rows: Transfers) -> tuple[Transfers, NDArray[np.int64]]:
    """The rows and their size labels, where the position does not determine them: every chunk is followed from its
    origin. A row is cut where its chunks' labels are not consecutive."""
    s = schedule
    lengths = s.lengths
    first = np.cumsum([0, *lengths])[:-1]
    holds = np.zeros((s.ranks, sum(lengths)), dtype=np.int64)
    for rank in range(s.ranks):
        for buffer in (Buffer.DATA, Buffer.INPUT):
            holds[rank, first[buffer] :][: s.chunks] = s.promise.precondition_labels(rank, s.ranks, s.chunks)
    row = np.repeat(np.arange(len(rows)), rows.count)
    offset = positions(rows.count)
    source = (first[rows.source_buffer] + rows.source_chunk)[row] + offset
    target = (first[rows.target_buffer] + rows.target_chunk)[row] + offset
    label = np.zeros(len(row), dtype=np.int64)
    for low, high in pairwise([0, *(np.flatnonzero(np.diff(rows.round[row])) + 1).tolist(), len(row)]):
        part = slice(low, high)
        label[part] = holds[rows.source[row[part]], source[part]]
        holds[rows.target[row[part]], target[part]] = label[part]
    start = np.flatnonzero((offset == 0) | (np.diff(label, prepend=-1) != 1))
    at, skip = row[start], offset[start].astype(np.int32)
    runs = replace(
        rows.take(at),
        source_chunk=rows.source_chunk[at] + skip,
        target_chunk=rows.target_chunk[at] + skip,
        count=np.diff(start, append=len(row)).astype(np.int32),
    )
    return runs, label[start]


def _program(schedule: Schedule, shared: Columns, rank: int) -> Program:
    mine = np.flatnonzero((shared.rows.source == rank) | (shared.rows.target == rank))
    return write(schedule, shared, rank, mine)[0]


def write(schedule: Schedule, shared: Columns, rank: int, mine: NDArray[np.intp]) -> tuple[Program, Placement]:
    """The rank's program from the rows that touch it, and its final placement of chunks."""
    rows = shared.rows.take(mine)
    columns = (shared.label[mine].tolist(), shared.ordinal[mine].tolist(), shared.multicast[mine].tolist())
    writer = _Writer(schedule, rank, rows, *columns)
    edges = [0, *(np.flatnonzero(np.diff(rows.round)) + 1).tolist(), len(rows)]
    for low, high in pairwise(edges):
        writer.send(low, high)
        writer.receive(low, high)
    if schedule.in_place:
        writer.out.extend(writer.placement.finish())
    code = drop_dead_scratch(writer.out)
    used = [o.index + o.count for i in code for o in (*i.targets, *i.sources) if o.space is Space.SCRATCH]
    program = Program(
        schedule.name,
        schedule.collective,
        rank,
        schedule.ranks,
        schedule.chunks,
        (tuple(code),),
        schedule.root,
        max(used, default=0),
        is_aliasable(code, writer.placement),
    )
    return program, writer.placement


_Range = tuple[int, int, int]  # buffer, chunk, count


class _Writer:
    """Writes one rank's program, round by round."""

    def __init__(
        self,
        schedule: Schedule,
        rank: int,
        rows: Transfers,
        label: list[int],
        ordinal: list[int],
        multicast: list[bool],
    ) -> None:
        self.rank, self.label, self.ordinal, self.multicast = rank, label, ordinal, multicast
        self.followed = schedule.promise.transposes
        self.placement = Placement(schedule, rank, rows)
        self.out: list[Instruction] = []
        self.source, self.target = rows.source.tolist(), rows.target.tolist()
        count = rows.count.tolist()
        self.read: list[_Range] = list(zip(rows.source_buffer.tolist(), rows.source_chunk.tolist(), count, strict=True))
        self.write: list[_Range] = list(
            zip(rows.target_buffer.tolist(), rows.target_chunk.tolist(), count, strict=True)
        )
        self.reduce = rows.reduce.tolist()
        self.waited: dict[int, int] = {}  # per peer: messages taken so far
        self.released: dict[int, int] = {}
        self.register: dict[tuple[int, int], int] = {}  # (peer, ordinal) -> message register
        self.spent: set[tuple[int, int]] = set()
        self.lane: dict[int, list[bool]] = {}  # per peer: whether its messages are multicasts, in their order
        for i in sorted(range(len(ordinal)), key=ordinal.__getitem__):
            if ordinal[i] >= 0 and self.target[i] == rank:
                self.lane.setdefault(self.source[i], []).append(multicast[i])

    def send(self, low: int, high: int) -> None:
        groups: dict[_Range, list[int]] = {}
        for i in range(low, high):
            if self.source[i] == self.rank != self.target[i]:
                groups.setdefault(self.read[i], []).append(i)
        for span, members in groups.items():
            operand = self._source(span, self.label[members[0]])
            slot = fuse_slot(self.out, operand)
            self.out.extend(
                Instruction(Kind.SIGNAL, peer=self.target[i], register=slot, multicast=self.multicast[i])
                for i in members
            )

    def receive(self, low: int, high: int) -> None:
        groups: dict[_Range, list[int]] = {}
        in_order: list[_Range] = []  # the ranges of groups, none of which overlaps another
        for i in range(low, high):
            if self.target[i] != self.rank:
                continue
            span = self.write[i]
            if span in groups:
                groups[span].append(i)
                continue
            at = bisect(in_order, span)
            if any(_overlap(s, span) for s in in_order[max(at - 1, 0) : at + 1]):
                self._flush(groups)
                in_order.clear()
                at = 0
            groups[span] = [i]
            in_order.insert(at, span)
        self._flush(groups)

    def _flush(self, groups: dict[_Range, list[int]]) -> None:
        for span, members in groups.items():
            stores = [i for i in members if not self.reduce[i]]
            self._gather(span, members)
            if stores:  # contents before the last store are overwritten
                members = members[members.index(stores[-1]) :]
            label = self.label[members[0]]
            sources = [] if stores else [self._source(span, label)]
            sources += [self._incoming(i, label) for i in members]
            buffer, chunk, count = span
            if buffer == Buffer.DATA:
                target = self._labelled(self.placement.write(chunk, count), label)
            else:
                target = Operand(Space.OUTPUT if buffer == Buffer.OUTPUT else Space.SCRATCH, chunk, label, count)
            kind = Kind.COPY if len(sources) == 1 else Kind.REDUCE
            self.out.append(Instruction(kind, (target,), tuple(sources)))
            self._release()
        groups.clear()

    def _gather(self, span: _Range, members: list[int]) -> None:
        """Waits until every message that `members` need has been taken; a lane's messages come in order."""
        for i in members:
            peer, ordinal = self.source[i], self.ordinal[i]
            if peer == self.rank:
                continue
            while self.waited.get(peer, 0) <= ordinal:
                used = set(self.register.values())
                register = next(k for k in range(len(used) + 1) if k not in used)
                number = self.waited.get(peer, 0)
                self.register[peer, number] = register
                self.waited[peer] = number + 1
                multicast = self.lane[peer][number]
                self.out.append(Instruction(Kind.WAIT, peer=peer, register=register, multicast=multicast))
            self.spent.add((peer, ordinal))

    def _release(self) -> None:
        for peer, ordinal in sorted(self.spent):
            if self.released.get(peer, 0) == ordinal:
                self.released[peer] = ordinal + 1
                self.spent.remove((peer, ordinal))
                del self.register[peer, ordinal]
                self.out.append(Instruction(Kind.RELEASE, peer=peer, multicast=self.lane[peer][ordinal]))

    def _incoming(self, i: int, label: int) -> Operand:
        if self.source[i] == self.rank:
            return self._source(self.read[i], label)
        return Operand(Space.MESSAGE, self.register[self.source[i], self.ordinal[i]], label, self.write[i][2])

    def _source(self, span: _Range, label: int) -> Operand:
        buffer, chunk, count = span
        if buffer == Buffer.DATA:
            operand, moves = self.placement.read(chunk, count)
            self.out.extend(moves)
            return self._labelled(operand, label)
        space = {Buffer.INPUT: Space.INPUT, Buffer.OUTPUT: Space.OUTPUT}.get(Buffer(buffer), Space.SCRATCH)
        return Operand(space, chunk, label, count)

    def _labelled(self, operand: Operand, label: int) -> Operand:
        """The operand with that label where the position does not determine it."""
        return operand._replace(label=label) if self.followed else operand


def _overlap(a: _Range, b: _Range) -> bool:
    return a[0] == b[0] and a[1] < b[1] + b[2] and b[1] < a[1] + a[2]
