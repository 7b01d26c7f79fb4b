"""Hierarchical all_to_all, over groups of any ranks and sizes: blocks cross together, then spread inside a group.

A rank sends its blocks for a group in one message to the rank of its own index there, modulo the group's size; then
each group exchanges what its ranks have received. As many bytes cross as without groups, in as many fewer messages as a
group has ranks. Source: Träff, Rougier: MPI collectives and datatypes for hierarchical all-to-all communication, 2014.
"""

from __future__ import annotations

from dataclasses import replace
from math import lcm
from typing import NamedTuple

import numpy as np

from ringtree.ir.lower import columns
from ringtree.ir.schedule import Block, Buffer, Schedule, Transfers
from ringtree.transform.phases import Indices, Members, ScheduleBuilder
from ringtree.transform.rows import by_round, cut, joined, parts

AT_ONCE = 4
"""The senders whose blocks a rank spreads at once, each in messages of its own, which take staging slots."""


def nest_all_to_all(inner: ScheduleBuilder, outer: ScheduleBuilder, members: Members) -> Schedule:
    """`outer` between two groups or more, `inner` in each. ValueError where one of them exchanges in one buffer.

    Cost: n * (groups + ranks of a group) steps in Python for n ranks, and n**2 chunks.
    """
    between = _Exchange.of(outer, len(members))
    inside = {size: _Exchange.of(inner, size) for size in {len(ranks) for ranks in members}}
    unit = lcm(between.pieces, *(exchange.pieces for exchange in inside.values()))
    arrivals = _Arrivals(members, unit)
    crossing = _Crossing(members, unit, between, arrivals)
    spreading = [_Spreading(ranks, unit, inside[len(ranks)], arrivals, crossing.scratch) for ranks in members]
    phases = _placed([crossing]), _placed(spreading)
    return Schedule(
        f"{inner.name}+{outer.name}",
        "all_to_all",
        len(arrivals.senders),
        len(arrivals.senders) * unit,
        tuple(Block(rows) for rows in phases if len(rows)),
        scratch=max(part.scratch for part in spreading),
    )


class _Move(NamedTuple):
    """A row of one chunk: the piece of the block of rank `origin` for rank `goal` that it moves, and from where to
    where."""

    round: int
    origin: int
    goal: int
    piece: int
    source: int
    source_buffer: int
    source_chunk: int
    target: int
    target_buffer: int
    target_chunk: int


class _Exchange(NamedTuple):
    """An all_to_all as moves of blocks that are cut in `pieces`."""

    moves: list[_Move]
    pieces: int
    scratch: int

    @staticmethod
    def of(builder: ScheduleBuilder, ranks: int) -> _Exchange:
        schedule = builder.build("all_to_all", ranks)
        if schedule.in_place:
            raise ValueError(f"nest: {schedule.name} exchanges in one buffer; expected one with an input and an output")
        followed, pieces = columns(schedule), schedule.chunks // ranks
        index, offset = parts(followed.rows.count)
        rows = cut(followed.rows, index, offset, 1)
        origin, position = np.divmod(followed.label[index] + offset, schedule.chunks)
        goal, piece = np.divmod(position, pieces)
        source = rows.source, rows.source_buffer, rows.source_chunk
        target = rows.target, rows.target_buffer, rows.target_chunk
        listed = (column.tolist() for column in (rows.round, origin, goal, piece, *source, *target))
        moves = [_Move(*row) for row in zip(*listed, strict=True)]
        return _Exchange(moves, pieces, schedule.scratch)


class _Place(NamedTuple):
    """Chunks of the whole at a rank, a buffer for each or one for all."""

    buffer: Indices | int
    chunks: Indices


class _Arrivals:
    """The places where blocks of other groups' ranks arrive: aside, or in the output of a rank alone in its group."""

    def __init__(self, members: Members, unit: int) -> None:
        self.senders = [np.array([rank]) for rank in range(sum(map(len, members)))]
        """The ranks whose blocks a rank spreads in its group, itself included."""
        self.first: dict[tuple[int, int], int] = {}
        """The first chunk aside, by rank and sender."""
        self.scratch = 0
        for there in members:
            for at, rank in enumerate(there.tolist()):
                if len(there) > 1:
                    sent = np.concatenate([here[at :: len(there)] for here in members if here is not there])
                    self.first.update({(rank, sender): k * len(there) * unit for k, sender in enumerate(sent.tolist())})
                    self.senders[rank] = np.sort(np.append(sent, rank))
                    self.scratch = max(self.scratch, len(sent) * len(there) * unit)


class _Crossing:
    """The phase between groups: a copy of the exchange for each index in a group; a smaller group's ranks receive in
    several copies, and send in the one of their index."""

    def __init__(self, members: Members, unit: int, exchange: _Exchange, arrivals: _Arrivals) -> None:
        self._members, self._unit, self._exchange, self._arrivals = members, unit, exchange, arrivals
        most, least = (bound(map(len, members)) for bound in (max, min))
        self._width = most * unit // exchange.pieces
        self.scratch = arrivals.scratch + exchange.scratch * self._width * -(-most // least)

    def rows(self) -> list[Transfers]:
        found = []
        for copy in range(max(map(len, self._members))):
            for move in self._exchange.moves:
                if move.origin != move.goal and copy < len(self._members[move.origin]):
                    source = self._place(copy, move, move.source, move.source_buffer, move.source_chunk)
                    target = self._place(copy, move, move.target, move.target_buffer, move.target_chunk)
                    ranks = self._rank(copy, move.source), self._rank(copy, move.target)
                    found.append(_row(move.round, *ranks, source, target))
        return found

    def _rank(self, copy: int, group: int) -> int:
        ranks = self._members[group]
        return int(ranks[copy % len(ranks)])

    def _place(self, copy: int, move: _Move, group: int, buffer: int, chunk: int) -> _Place:
        goal = self._members[move.goal]
        width = len(goal) * self._unit // self._exchange.pieces
        piece = np.arange(move.piece * width, (move.piece + 1) * width)
        if buffer == Buffer.INPUT:
            return _Place(Buffer.INPUT, goal[piece // self._unit] * self._unit + piece % self._unit)
        if buffer == Buffer.OUTPUT:
            sender = self._rank(copy, move.origin)
            if len(goal) == 1:
                return _Place(Buffer.OUTPUT, sender * self._unit + piece)
            return _Place(Buffer.SCRATCH, self._arrivals.first[self._rank(copy, group), sender] + piece)
        aside = copy // len(self._members[group]) * self._exchange.scratch + chunk
        return _Place(Buffer.SCRATCH, self._arrivals.scratch + aside * self._width + np.arange(width))


class _Spreading:
    """The phase in a group: a rank's block for another is what it has from some senders for that rank."""

    def __init__(self, ranks: Indices, unit: int, exchange: _Exchange, arrivals: _Arrivals, aside: int) -> None:
        self._ranks, self._unit, self._exchange, self._arrivals, self._aside = ranks, unit, exchange, arrivals, aside
        self._width = min(AT_ONCE, self._most()) * unit // exchange.pieces
        self.scratch = aside + exchange.scratch * self._width

    def rows(self) -> list[Transfers]:
        found, last = list[Transfers](), 1 + max(move.round for move in self._exchange.moves)
        for turn in range(-(-self._most() // AT_ONCE)):
            for move in self._exchange.moves:
                senders = self._arrivals.senders[self._ranks[move.origin]][turn * AT_ONCE : (turn + 1) * AT_ONCE]
                if len(senders):
                    source = self._place(senders, move, move.source_buffer, move.source_chunk)
                    target = self._place(senders, move, move.target_buffer, move.target_chunk)
                    ranks = int(self._ranks[move.source]), int(self._ranks[move.target])
                    found.append(_row(turn * last + move.round, *ranks, source, target))
        return found

    def _most(self) -> int:
        return max(len(self._arrivals.senders[rank]) for rank in self._ranks)

    def _place(self, senders: Indices, move: _Move, buffer: int, chunk: int) -> _Place:
        unit, rank = self._unit, int(self._ranks[move.origin])
        width = len(senders) * unit // self._exchange.pieces
        piece = np.arange(move.piece * width, (move.piece + 1) * width)
        if buffer == Buffer.OUTPUT:
            return _Place(Buffer.OUTPUT, senders[piece // unit] * unit + piece % unit)
        if buffer == Buffer.SCRATCH:
            return _Place(Buffer.SCRATCH, self._aside + chunk * self._width + np.arange(width))
        first = np.array([self._arrivals.first.get((rank, sender), 0) for sender in senders.tolist()])
        own = senders[piece // unit] == rank
        aside = first[piece // unit] + move.goal * unit
        chunks = np.where(own, self._ranks[move.goal] * unit, aside) + piece % unit
        return _Place(np.where(own, Buffer.INPUT, Buffer.SCRATCH), chunks)


def _row(round: int, source: int, target: int, there: _Place, here: _Place) -> Transfers:
    """The row that moves chunks from a place of the source to one of the target."""
    return Transfers.of(
        source,
        target,
        there.chunks,
        to=here.chunks,
        round=round,
        source_buffer=there.buffer,
        target_buffer=here.buffer,
    )


def _placed(phases: list[_Crossing] | list[_Spreading]) -> Transfers:
    """The rows of phases side by side; chunks that lie side by side at both ends are one."""
    rows = by_round([joined(Transfers.concatenate(row for phase in phases for row in phase.rows()))])
    return replace(rows, round=np.unique(rows.round, return_inverse=True)[1].astype(np.int32))
