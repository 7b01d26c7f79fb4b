"""Programs with bytes and seconds: one table of steps, which the event player reads.

Which signal a wait takes, which filling of a slot a release gives back: programs leave no choice about it (the k-th
takes the k-th), so all of it is found here, before anything is played. A rank's reading or writing of a peer's memory
becomes a message: ASK hands it over for the peer, or for itself, and the thread waits until it has landed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ringtree.ir.program import Instruction, Kind, Operand, Program, Space

COPY, REDUCE, SIGNAL, WAIT = (int(k) for k in (Kind.COPY, Kind.REDUCE, Kind.SIGNAL, Kind.WAIT))
ASK, LAND, FILL, GIVE, AFTER, MARK = range(4, 10)
"""Steps that programs do not name. ASK: a message for which no rank signals; LAND: it has arrived; FILL: a slot must be
free; GIVE: a payload is used once less; AFTER: a MARK must have been passed; MARK: somebody looks for it."""
NONE = -1


@dataclass(slots=True)
class Thread:
    """One thread of one rank's program: steps first … stop-1 of the table."""

    rank: int
    job: int
    first: int
    stop: int


@dataclass(slots=True)
class Steps:
    """A row a step. `peer` of a copy or reduction: whose message it reads. `number`: of a signal or wait its partner's
    row, of LAND the row of its ASK, of FILL and GIVE a payload, of AFTER a row; NONE where there is none. `chunk`: the
    position on the whole vector, NONE where it is several or none.

    A *payload* is one filling of a slot: `uses` counts the GIVEs before it is free, `places` are its (pool, ordinal)
    pairs, and `pools` list payloads in the order in which they take the slots of one ring.
    """

    threads: list[Thread] = field(default_factory=list)
    rank: list[int] = field(default_factory=list)
    channel: list[int] = field(default_factory=list)
    kind: list[int] = field(default_factory=list)
    nbytes: list[int] = field(default_factory=list)
    sources: list[int] = field(default_factory=list)
    peer: list[int] = field(default_factory=list)
    chunk: list[int] = field(default_factory=list)
    number: list[int] = field(default_factory=list)
    uses: list[int] = field(default_factory=list)
    places: list[list[tuple[int, int]]] = field(default_factory=list)
    pools: list[list[int]] = field(default_factory=list)

    def add(self, rank: int, channel: int, kind: int, nbytes: int = 0, peer: int = NONE, chunk: int = NONE) -> int:
        """One step more; returns its row."""
        for column, value in (
            (self.rank, rank),
            (self.channel, channel),
            (self.kind, kind),
            (self.nbytes, nbytes),
            (self.sources, 1),
            (self.peer, peer),
            (self.chunk, chunk),
            (self.number, NONE),
        ):
            column.append(value)
        return len(self.kind) - 1


@dataclass(slots=True)
class _Lane:
    """Rows of the signals and waits between two ranks on one channel, payloads of the signals, rows of the releases."""

    signals: list[int] = field(default_factory=list)
    waits: list[int] = field(default_factory=list)
    payloads: list[int] = field(default_factory=list)
    releases: list[int] = field(default_factory=list)


def read(
    steps: Steps, job: int, programs: Sequence[Program], sizes: NDArray[np.int64], channel: int, slots: bool
) -> int:
    """Adds the programs' steps. `sizes`: bytes of a chunk by its label. The job's channels begin at `channel`; returns
    where the next job's may. `slots`: whether slots are counted."""
    lanes: dict[tuple[int, int, int], _Lane] = {}
    edges = [0, *np.cumsum(sizes).tolist()]
    threaded = max(len(p.threads) for p in programs) > 1
    width = 1 + max((i.channel for p in programs for t in p.threads for i in t), default=0)
    for program in programs:
        reader = _Reader(steps, program, edges, lanes, channel, width, slots)
        if slots and not threaded:
            reader.pool = len(steps.pools)
            steps.pools.append([])
        reader.read(job)
    for lane in lanes.values():
        _pair(steps, lane)
        if slots and threaded:
            for ordinal, payload in enumerate(lane.payloads):
                steps.places[payload].append((len(steps.pools), ordinal))
            steps.pools.append(lane.payloads)
    return channel + width + max(len(p.threads) for p in programs)


def _pair(steps: Steps, lane: _Lane) -> None:
    for signal, wait in zip(lane.signals, lane.waits, strict=False):
        steps.number[signal], steps.number[wait] = wait, signal
        steps.nbytes[wait], steps.chunk[wait] = steps.nbytes[signal], steps.chunk[signal]
    for release, payload in zip(lane.releases, lane.payloads, strict=False):
        steps.number[release] = payload


class _Reader:
    """Reads one rank's program."""

    def __init__(
        self,
        steps: Steps,
        program: Program,
        edges: list[int],
        lanes: dict[tuple[int, int, int], _Lane],
        channel: int,
        width: int,
        slots: bool,
    ) -> None:
        self.steps, self.program, self.edges, self.lanes, self.slots = steps, program, edges, lanes, slots
        self.rank, self.base, self.width = program.rank, channel, width
        self.pool = NONE
        self.marks: dict[tuple[int, int], int] = {}

    def read(self, job: int) -> None:
        steps = self.steps
        marked = {dependence for thread in self.program.threads for i in thread for dependence in i.after}
        later: list[tuple[int, tuple[int, int]]] = []
        for number, code in enumerate(self.program.threads):
            first = len(steps.kind)
            self.filled: dict[int, tuple[Operand, int]] = {}  # slot register -> what was written, its payload
            self.open: set[int] = set()  # registers written and not yet signalled
            self.held: dict[int, int] = {}  # message register -> its sender
            own = next((i.channel for i in code if i.kind in (Kind.SIGNAL, Kind.WAIT)), 0)
            for step, i in enumerate(code):
                later += [(steps.add(self.rank, 0, AFTER), dependence) for dependence in i.after]
                self._step(i, self.base + own, self.base + self.width + number)
                if (number, step) in marked:
                    self.marks[number, step] = steps.add(self.rank, 0, MARK)
            steps.threads.append(Thread(self.rank, job, first, len(steps.kind)))
        for row, dependence in later:
            steps.number[row] = self.marks.get(dependence, NONE)

    def _step(self, i: Instruction, channel: int, one_sided: int) -> None:
        if i.kind in (Kind.COPY, Kind.REDUCE):
            self._move(i, channel, one_sided)
        elif i.kind is Kind.SIGNAL:
            self._signal(i)
        elif i.kind is Kind.WAIT:
            row = self.steps.add(self.rank, self.base + i.channel, WAIT, 0, i.peer)
            self._lane(i.peer, self.rank, i.channel).waits.append(row)
            self.held[i.register] = i.peer
        elif self.slots:
            row = self.steps.add(self.rank, 0, GIVE)
            self._lane(i.peer, self.rank, i.channel).releases.append(row)

    def _lane(self, source: int, target: int, channel: int) -> _Lane:
        return self.lanes.setdefault((source, target, channel), _Lane())

    def _nbytes(self, o: Operand) -> int:
        return self.edges[o[2] + o[3]] - self.edges[o[2]]

    def _chunk(self, o: Operand) -> int:
        return o[2] % self.program.chunks if o[3] == 1 else NONE

    def _signal(self, i: Instruction) -> None:
        lane, row = self._lane(self.rank, i.peer, i.channel), 0
        if i.register < 0:
            row = self.steps.add(self.rank, self.base + i.channel, SIGNAL, 0, i.peer)
        else:
            operand, payload = self.filled[i.register]
            row = self.steps.add(
                self.rank, self.base + i.channel, SIGNAL, self._nbytes(operand), i.peer, self._chunk(operand)
            )
            self.open.discard(i.register)
            if self.slots:
                self.steps.uses[payload] += 1
                lane.payloads.append(payload)
        lane.signals.append(row)

    def _move(self, i: Instruction, channel: int, one_sided: int) -> None:
        steps, target = self.steps, i.targets[0]
        far = [o for o in i.sources if o.rank not in (NONE, self.rank)]
        asked = [steps.add(o.rank, one_sided, ASK, self._nbytes(o), self.rank, self._chunk(o)) for o in far]
        for row, o in zip(asked, far, strict=True):
            wait = steps.add(self.rank, one_sided, WAIT, self._nbytes(o), o.rank, self._chunk(o))
            steps.number[wait], steps.number[row] = row, wait
        for o in i.targets:
            if o.space is Space.SLOT:
                self._fill(o)
        read = next((self.held.get(o.index, NONE) for o in i.sources if o.space is Space.MESSAGE), NONE)
        peer = far[0].rank if far else read
        row = steps.add(self.rank, channel, int(i.kind), self._nbytes(target), peer, self._chunk(target))
        steps.sources[row] = len(i.sources)
        if self.slots:
            for o in i.sources:
                if o.space is Space.SLOT:
                    payload = self.filled[o.index][1]
                    steps.uses[payload] += 1
                    steps.number[steps.add(self.rank, 0, GIVE)] = payload
        put = [o for o in i.targets if o.rank not in (NONE, self.rank)]
        asked = [steps.add(self.rank, one_sided, ASK, self._nbytes(o), o.rank, self._chunk(o)) for o in put]
        for row in asked:
            steps.number[steps.add(self.rank, one_sided, LAND)] = row

    def _fill(self, o: Operand) -> None:
        payload = self.filled[o.index][1] if o.index in self.open else NONE
        if self.slots and payload == NONE:
            steps, payload = self.steps, len(self.steps.uses)
            steps.uses.append(0)
            steps.places.append([])
            if self.pool != NONE:
                steps.places[payload].append((self.pool, len(steps.pools[self.pool])))
                steps.pools[self.pool].append(payload)
            steps.number[steps.add(self.rank, 0, FILL)] = payload
        self.filled[o.index] = o, payload
        self.open.add(o.index)
