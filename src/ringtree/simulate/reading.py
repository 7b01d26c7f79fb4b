"""Reads programs into steps: their sizes, and the step that each one takes a message, slot or mark from.

A rank's reading or writing of a peer's memory becomes a message: ASK hands it over, for the peer or for the rank
itself, and the thread waits until it has arrived.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ringtree.ir.program import Instruction, Kind, Operand, Program, Space
from ringtree.simulate.steps import (
    AFTER,
    ASK,
    COLUMNS,
    FILL,
    GIVE,
    LAND,
    MARK,
    NONE,
    SIGNAL,
    WAIT,
    Ints,
    StepTable,
    ThreadSteps,
)


def read(programs: Sequence[Program], sizes: Ints, slots: bool) -> StepTable:
    """The steps of every rank's program. `sizes`: bytes of a chunk by its label; `slots`: whether slots are counted."""
    table = StepRows()
    threaded, edges = max(len(p.threads) for p in programs) > 1, [0, *np.cumsum(sizes).tolist()]
    most = channels(programs)
    for program in programs:
        reader = ProgramReader(table, program, edges, most, slots)
        if slots and not threaded:
            reader.pool = len(table.pools)
            table.pools.append([])
        reader.read()
    return table.paired(slots and threaded)


def channels(programs: Sequence[Program]) -> int:
    """One more than the highest channel of a message."""
    return 1 + max((i.channel for p in programs for t in p.threads for i in t), default=0)


Row = list[int]
RANK, CHANNEL, JOB, KIND, NBYTES, SOURCES, PEER, CHUNK, NUMBER = range(len(COLUMNS))


@dataclass(slots=True)
class StepRows:
    """The table of steps under construction; `lanes` by source, target and channel."""

    rows: list[Row] = field(default_factory=list)
    threads: list[ThreadSteps] = field(default_factory=list)
    uses: list[int] = field(default_factory=list)
    positions: list[list[tuple[int, int]]] = field(default_factory=list)
    pools: list[list[int]] = field(default_factory=list)
    lanes: dict[tuple[int, int, int], StepLane] = field(default_factory=dict)

    def paired(self, lane_slots: bool) -> StepTable:
        """The finished table: signals find their waits, releases their payloads. `lane_slots`: slots are counted by
        lane."""
        for lane in self.lanes.values():
            lane.pair(self)
            if lane_slots:
                for ordinal, payload in enumerate(lane.payloads):
                    self.positions[payload].append((len(self.pools), ordinal))
                self.pools.append(lane.payloads)
        columns = np.array(self.rows, dtype=np.int64).reshape(-1, len(COLUMNS)).T.copy()
        named = dict(zip(COLUMNS, columns, strict=True))
        return StepTable(self.threads, **named, uses=self.uses, positions=self.positions, pools=self.pools)


@dataclass(slots=True)
class StepLane:
    """Rows of the signals and waits between two ranks on one channel, payloads of the signals, rows of the releases."""

    signals: list[int] = field(default_factory=list)
    waits: list[int] = field(default_factory=list)
    payloads: list[int] = field(default_factory=list)
    releases: list[int] = field(default_factory=list)

    def pair(self, table: StepRows) -> None:
        """Enters each row's partner."""
        for signal, wait in zip(self.signals, self.waits, strict=False):
            taken, row = table.rows[signal], table.rows[wait]
            taken[NUMBER], row[NUMBER] = wait, signal
            row[NBYTES], row[CHUNK] = taken[NBYTES], taken[CHUNK]
        for release, payload in zip(self.releases, self.payloads, strict=False):
            table.rows[release][NUMBER] = payload


class ProgramReader:
    """Reads one rank's program."""

    def __init__(self, table: StepRows, program: Program, edges: list[int], channels: int, slots: bool) -> None:
        """`edges`: bytes before each chunk by its label. `channels`: the number of those that messages name; one-sided
        messages have channels above them."""
        self.table, self.program, self.edges, self.slots = table, program, edges, slots
        self.rank, self.channels = program.rank, channels
        self.pool = NONE

    def read(self) -> None:
        """Adds the steps of the whole program."""
        table, marks = self.table, dict[tuple[int, int], int]()
        marked = {dependence for code in self.program.threads for i in code for dependence in i.after}
        later: list[tuple[int, tuple[int, int]]] = []
        for number, code in enumerate(self.program.threads):
            first = len(table.rows)
            self._begin(number, code)
            for step, i in enumerate(code):
                later += [(self._add(AFTER), dependence) for dependence in i.after]
                self._step(i)
                if (number, step) in marked:
                    marks[number, step] = self._add(MARK)
            table.threads.append(ThreadSteps(self.rank, 0, first, len(table.rows)))
        for row, dependence in later:
            table.rows[row][NUMBER] = marks.get(dependence, NONE)

    def _begin(self, number: int, code: Sequence[Instruction]) -> None:
        """Begins the thread of that number."""
        self.filled: dict[int, tuple[Operand, int]] = {}  # slot register -> written range, its payload
        self.open: set[int] = set()  # registers written and not yet signalled
        self.held: dict[int, int] = {}  # message register -> its sender
        self.channel = next((i.channel for i in code if i.kind in (Kind.SIGNAL, Kind.WAIT)), 0)
        self.one_sided = self.channels + number

    def _add(
        self, kind: int, number: int = NONE, channel: int = 0, nbytes: int = 0, peer: int = NONE, chunk: int = NONE
    ) -> int:
        """Appends a step; returns its row."""
        self.table.rows.append([self.rank, channel, 0, kind, nbytes, 1, peer, chunk, number])
        return len(self.table.rows) - 1

    def _step(self, i: Instruction) -> None:
        kind = i.kind
        if kind <= Kind.REDUCE:
            self._move(i)
        elif kind == Kind.SIGNAL:
            self._signal(i)
        elif kind == Kind.WAIT:
            row = self._add(WAIT, NONE, i.channel, 0, i.peer)
            self._lane(i.peer, self.rank, i.channel).waits.append(row)
            self.held[i.register] = i.peer
        elif self.slots:
            self._lane(i.peer, self.rank, i.channel).releases.append(self._add(GIVE))

    def _lane(self, source: int, target: int, channel: int) -> StepLane:
        return self.table.lanes.setdefault((source, target, channel), StepLane())

    def _nbytes(self, o: Operand) -> int:
        return self.edges[o[2] + o[3]] - self.edges[o[2]]

    def _chunk(self, o: Operand) -> int:
        return o[2] % self.program.chunks if o[3] == 1 else NONE

    def _signal(self, i: Instruction) -> None:
        lane = self._lane(self.rank, i.peer, i.channel)
        if i.register < 0:
            lane.signals.append(self._add(SIGNAL, NONE, i.channel, 0, i.peer))
            return
        operand, payload = self.filled[i.register]
        row = self._add(SIGNAL, NONE, i.channel, self._nbytes(operand), i.peer, self._chunk(operand))
        lane.signals.append(row)
        self.open.discard(i.register)
        if self.slots:
            self.table.uses[payload] += 1
            lane.payloads.append(payload)

    def _move(self, i: Instruction) -> int:
        """Adds the steps of a copy or a reduction; returns its own row."""
        target, rows = i.targets[0], self.table.rows
        far = [o for o in i.sources if o.rank not in (NONE, self.rank)]
        asked = [self._ask(o, o.rank, self.rank) for o in far]
        for ask, o in zip(asked, far, strict=True):
            rows[ask][NUMBER] = self._add(WAIT, ask, self.one_sided, self._nbytes(o), o.rank, self._chunk(o))
        for o in i.targets:
            if o.space == Space.SLOT:
                self._fill(o)
        read = next((self.held.get(o.index, NONE) for o in i.sources if o.space == Space.MESSAGE), NONE)
        peer = far[0].rank if far else read
        row = self._add(int(i.kind), NONE, self.channel, self._nbytes(target), peer, self._chunk(target))
        rows[row][SOURCES] = len(i.sources)
        if self.slots:
            for o in i.sources:
                if o.space == Space.SLOT:
                    payload = self.filled[o.index][1]
                    self.table.uses[payload] += 1
                    self._add(GIVE, payload)
        for landing in [self._ask(o, self.rank, o.rank) for o in i.targets if o.rank not in (NONE, self.rank)]:
            self._add(LAND, landing)
        return row

    def _ask(self, o: Operand, source: int, target: int) -> int:
        row = self._add(ASK, NONE, self.one_sided, self._nbytes(o), target, self._chunk(o))
        self.table.rows[row][RANK] = source
        return row

    def _fill(self, o: Operand) -> None:
        payload = self.filled[o.index][1] if o.index in self.open else NONE
        if self.slots and payload == NONE:
            table, payload = self.table, len(self.table.uses)
            table.uses.append(0)
            table.positions.append([])
            if self.pool != NONE:
                table.positions[payload].append((self.pool, len(table.pools[self.pool])))
                table.pools[self.pool].append(payload)
            self._add(FILL, payload)
        self.filled[o.index] = o, payload
        self.open.add(o.index)
