"""Raises programs into a schedule: the source and target of every message's chunks, in as few rounds as possible.

The instructions are replayed in one legal order. A message is a reference to the content of some cell at some time;
when it is stored or added, it becomes a row, in the first round that the order of every cell's reads and writes
allows. A row reads its source at the start of its round, so two ranks may exchange in one. Where the source is
overwritten too early for that, the chunk goes to scratch of the receiver first, as it was in a slot. A sum that is
forwarded without being stored is formed in the cell it was added to where that cell's content is not read any more,
else in scratch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from ringtree.formats.arranging import ChunkMove, arrange
from ringtree.formats.execution import At, Cell, Execution, NamedMemory
from ringtree.ir.program import Instruction, Kind, Operand, Program, Space
from ringtree.ir.schedule import Block, Buffer, Schedule


class Content(NamedTuple):
    """The content of `cell` between its `version`-th write and the next."""

    cell: Cell
    version: int


def raise_schedule(
    programs: Sequence[Program], memory: NamedMemory, execution: Execution, name: str, root: int | None = None
) -> Schedule:
    """The schedule, as one block. Cost: O(instructions * chunks each moves)."""
    raiser = _Raiser(programs, memory, execution)
    for at in execution.order:
        raiser.step(at)
    scratch = max(raiser.rows.scratch, default=0)
    empty = Schedule(name, memory.collective, memory.ranks, memory.chunks, (), root, scratch)
    return replace(empty, blocks=(Block(arrange(raiser.rows.placed, empty)),))


class _History:
    """One cell: the rounds in which each of its contents was written (-1: given) and overwritten, and its readers."""

    __slots__ = ("awaited", "ended", "read", "read_locally", "written")

    def __init__(self) -> None:
        self.written = [-1]
        self.ended: list[int] = []
        self.read = self.read_locally = -1
        self.awaited = False  # whether its present content has been or will be read


class _Rows:
    """Rows being moves in rounds."""

    def __init__(self, scratch: list[int]) -> None:
        self.placed: list[ChunkMove] = []
        self.scratch = scratch  # chunks in use, by rank
        self.history: dict[Cell, _History] = {}
        self.orders: dict[tuple[Cell, int], int] = {}
        self.moves = 0

    def at(self, cell: Cell) -> _History:
        found = self.history.get(cell)
        if found is None:
            found = self.history[cell] = _History()
        return found

    def content(self, cell: Cell) -> Content:
        """The cell's present content, kept readable from here on."""
        history = self.at(cell)
        history.awaited = True
        return Content(cell, len(history.ended))

    def temporary(self, rank: int, count: int) -> list[Cell]:
        """New scratch of that rank."""
        first = self.scratch[rank]
        self.scratch[rank] += count
        return [(rank, int(Buffer.SCRATCH), k) for k in range(first, first + count)]

    def move(self, contents: Sequence[Content], targets: Sequence[Cell], reduce: bool) -> None:
        """Rows from each content to its target, all in the first possible round."""
        self.moves += 1
        move = self.moves
        first = max(
            max(self._readable(c), self._writable(t, reduce, local=c.cell[0] == t[0]))
            for c, t in zip(contents, targets, strict=True)
        )
        found = list(contents)
        for k, (content, target) in enumerate(zip(contents, targets, strict=True)):
            ended = self.at(content.cell).ended
            if content.version < len(ended) and ended[content.version] < first:
                stage = self.temporary(target[0], 1)[0]
                self._place(self._readable(content), content, stage, False, -len(self.placed))
                found[k] = self.content(stage)  # readable by `first`, which is after the overwriting
        for content, target in zip(found, targets, strict=True):
            self._place(first, content, target, reduce, move)

    def _readable(self, content: Content) -> int:
        return self.at(content.cell).written[content.version] + 1

    def _writable(self, cell: Cell, reduce: bool, local: bool) -> int:
        """The first round in which the cell may be written: that of its readers, which read at the start, but after
        readers of its own rank, whose order in the round counts; additions to an unread content share a round."""
        history = self.at(cell)
        written = history.written[-1]
        together = reduce and not history.awaited
        return max(written if together else written + 1, history.read, history.read_locally + 1, 0)

    def _place(self, at: int, content: Content, target: Cell, reduce: bool, move: int) -> None:
        source = self.at(content.cell)
        if content.version == len(source.ended):
            source.awaited = True
            if content.cell[0] == target[0]:
                source.read_locally = max(source.read_locally, at)
            else:
                source.read = max(source.read, at)
        order = self.orders.get((target, at), 0)
        self.orders[target, at] = order + 1
        self.placed.append(ChunkMove(at, order, content.cell, target, reduce, move))
        history = self.at(target)
        history.ended.append(at)
        history.written.append(at)
        history.read = history.read_locally = -1
        history.awaited = False


class _Raiser:
    def __init__(self, programs: Sequence[Program], memory: NamedMemory, execution: Execution) -> None:
        self.programs, self.memory = programs, memory
        self.rows = _Rows([p.scratch for p in programs])
        self.dead = _unneeded(programs, memory, execution)
        self.registers: dict[tuple[int, int, Space, int], list[Content]] = {}
        self.lanes: dict[tuple[int, int, int], deque[list[Content]]] = {}

    def step(self, at: At) -> None:
        rank, thread, _ = at
        i = self.programs[rank].threads[thread][at[2]]
        if i.kind is Kind.SIGNAL and i.register >= 0:
            payload = self.registers[rank, thread, Space.SLOT, i.register]
            self.lanes.setdefault((rank, i.peer, i.channel), deque()).append(payload)
        elif i.kind is Kind.WAIT and i.register >= 0:
            self.registers[rank, thread, Space.MESSAGE, i.register] = self.lanes[i.peer, rank, i.channel].popleft()
        elif i.kind is Kind.COPY:
            self._write(at, i, *self._copy(at, i))
        elif i.kind is Kind.REDUCE:
            self._write(at, i, *self._sum(at, i))

    def _contents(self, at: At, o: Operand) -> list[Content]:
        if o.space in (Space.SLOT, Space.MESSAGE):
            return self.registers[at[0], at[1], o.space, o.index]
        return [self.rows.content(c) for c in self.memory.cells(at[0], o)]

    def _write(self, at: At, i: Instruction, cells: list[Cell], there: Operand | None) -> None:
        """Stores the cells' contents in all targets but `there`, which already has them."""
        others = [o for o in i.targets if o is not there]
        contents = [self.rows.content(c) for c in cells] if others else []
        for o in others:
            if o.space is Space.SLOT:
                self.registers[at[0], at[1], Space.SLOT, o.index] = contents
            else:
                self.rows.move(contents, self.memory.cells(at[0], o), False)

    def _copy(self, at: At, i: Instruction) -> tuple[list[Cell], Operand | None]:
        """The cells to copy from; a message is received into its first target and copied from there."""
        source = i.sources[0]
        if source.space < Space.SLOT:
            return self.memory.cells(at[0], source), None
        contents = self._contents(at, source)
        there = next((o for o in i.targets if o.space is not Space.SLOT), None)
        cells = self.memory.cells(at[0], there) if there else self.rows.temporary(at[0], source.count)
        self.rows.move(contents, cells, False)
        return cells, there

    def _sum(self, at: At, i: Instruction) -> tuple[list[Cell], Operand | None]:
        """The cells in which the sum of the sources was formed, and the target that has them, if any."""
        outputs = [o for o in i.targets if o.space is not Space.SLOT]
        cells = {id(o): self.memory.cells(at[0], o) for o in (*outputs, *i.sources) if o.space < Space.SLOT}
        sums = [o for o in outputs if any(cells.get(id(s)) == cells[id(o)] for s in i.sources)]
        sums.sort(key=lambda o: cells[id(o)][0][0] != at[0])  # preferably the rank's own memory
        there = next(iter(sums), None) or next((o for o in outputs if cells[id(o)][0][0] == at[0]), None)
        parts = list(i.sources)
        if there is not None:
            into = cells[id(there)]
        elif at in self.dead:
            into = cells[id(parts[0])]
        else:
            into = self.rows.temporary(at[0], parts[0].count)
        start = next((k for k, o in enumerate(parts) if cells.get(id(o)) == into), None)
        waiting = [self._contents(at, o) for k, o in enumerate(parts) if k != start]
        if start is None:
            self.rows.move(waiting.pop(0), into, False)
        for contents in waiting:
            self.rows.move(contents, into, True)
        return into, there


def _unneeded(programs: Sequence[Program], memory: NamedMemory, execution: Execution) -> set[At]:
    """The sums that go into slots only, and whose first source is of the rank's own memory, writable, and not read
    again before it is overwritten."""
    buffer = Buffer.DATA if memory.aliased else Buffer.OUTPUT
    postcondition = [memory.postcondition(rank) for rank in range(memory.ranks)]
    needed: dict[Cell, bool] = {
        (rank, int(buffer), k - (0 if memory.aliased else postcondition[rank].start)): True
        for rank in range(memory.ranks)
        for k in postcondition[rank]
    }
    found: set[At] = set()
    for at in reversed(execution.order):
        rank, thread, step = at
        i = programs[rank].threads[thread][step]
        if i.kind not in (Kind.COPY, Kind.REDUCE):
            continue
        read = [memory.cells(rank, o) for o in i.sources if o.space < Space.SLOT]
        if i.kind is Kind.REDUCE and all(o.space is Space.SLOT for o in i.targets) and i.sources[0].space < Space.SLOT:
            if all(c[0] == rank and c[1] != Buffer.INPUT and not needed.get(c, False) for c in read[0]):
                found.add(at)
        for o in i.targets:
            if o.space < Space.SLOT:
                needed.update(dict.fromkeys(memory.cells(rank, o), False))
        for cells in read:
            needed.update(dict.fromkeys(cells, True))
    return found
