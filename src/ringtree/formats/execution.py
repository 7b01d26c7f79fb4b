"""Runs programs of many threads on labels alone, to find one legal order of their instructions.

Lanes are unbounded, so a deadlock here is a deadlock everywhere. The order found is one of many; the proof of the
programs decides whether the others have the same result (no races, enough slots).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from ringtree.formats.imported import FormatError
from ringtree.ir.collective import BufferExtent, Collective, collective
from ringtree.ir.program import Instruction, Kind, Operand, Program, Space
from ringtree.ir.schedule import Buffer

Cell = tuple[int, int, int]
"""(rank, Buffer, chunk): one chunk of a rank's memory, under one name for every access."""

At = tuple[int, int, int]
"""(rank, thread, step)."""

SPACES = {"i": Space.INPUT, "o": Space.OUTPUT, "s": Space.SCRATCH}
NAMES = {space: name for name, space in SPACES.items()}
"""The file's names of a rank's memories, and back."""


@dataclass(frozen=True)
class NamedMemory:
    """The memory of operands. `aliased`: input and output are windows of one vector (Buffer.DATA), as in place."""

    collective: str
    ranks: int
    chunks: int
    aliased: bool

    @cached_property
    def promise(self) -> Collective:
        """The collective whose precondition and postcondition the memory has."""
        return collective(self.collective)

    @cached_property
    def _precondition(self) -> tuple[range, ...]:
        n, chunks = self.ranks, self.chunks
        if self.promise.before is BufferExtent.OWN and chunks % n:
            return tuple(range(rank * chunks // n, (rank + 1) * chunks // n) for rank in range(n))
        return tuple(self.promise.precondition(rank, n, chunks) for rank in range(n))

    @cached_property
    def _postcondition(self) -> tuple[range, ...]:
        return tuple(self.promise.postcondition(rank, self.ranks, self.chunks) for rank in range(self.ranks))

    def precondition(self, rank: int) -> range:
        """The positions of a rank's input. Where chunks do not divide evenly, nearly even windows: there an all_gather
        is played as far as possible, to report its first mistake rather than its numbers."""
        return self._precondition[rank]

    def postcondition(self, rank: int) -> range:
        """The positions of a rank's output."""
        return self._postcondition[rank]

    def cells(self, rank: int, operand: Operand) -> list[Cell]:
        """The cells of an operand of `rank` in a rank's memory."""
        owner = rank if operand.rank < 0 else operand.rank
        start, buffer = 0, Buffer.SCRATCH
        if operand.space != Space.SCRATCH:
            given = operand.space == Space.INPUT
            buffer = Buffer.INPUT if given else Buffer.OUTPUT
            if self.aliased:
                start, buffer = (self.precondition if given else self.postcondition)(owner).start, Buffer.DATA
        first = start + operand.index
        return [(owner, int(buffer), k) for k in range(first, first + operand.count)]

    def given(self) -> Iterator[tuple[Cell, int]]:
        """The cells with a content at the start, and its label."""
        buffer = int(Buffer.DATA if self.aliased else Buffer.INPUT)
        for rank in range(self.ranks):
            precondition = self.precondition(rank)
            for label in precondition:
                yield (rank, buffer, label - (0 if self.aliased else precondition.start)), label


@dataclass(slots=True)
class Execution:
    """`order`: all instructions, in a legal order. Per copy or reduce that is in it: `labels`, the label of the first
    chunk of each operand (targets first); `fresh`, whether its chunks still had their initial contents."""

    order: list[At] = field(default_factory=list)
    labels: dict[At, list[int]] = field(default_factory=dict)
    fresh: dict[At, list[list[bool]]] = field(default_factory=dict)


MOST_CHUNKS = 2**22
"""Far more than any published program has; each costs some hundred bytes."""

Where = Callable[[int, int, int], str]
"""Names (rank, thread, step) in the file's terms."""


def check_size(programs: Sequence[Program], memory: NamedMemory, path: Path) -> None:
    """Refuses programs of more than MOST_CHUNKS chunks, which would take minutes or all memory."""
    moved = sum(o.count for p in programs for code in p.threads for i in code for o in (*i.targets, *i.sources))
    held = memory.ranks * memory.chunks + sum(p.scratch for p in programs)
    for many, what in ((held, "has"), (moved, "moves")):
        if many > MOST_CHUNKS:
            raise FormatError(f"{path}: {what} {many} chunks over all gpus; expected at most {MOST_CHUNKS}")


def execute(
    programs: Sequence[Program], memory: NamedMemory, where: Where, name: Callable[[Operand], str]
) -> Execution:
    """Plays the programs to their end, in time and memory proportional to the chunks there are and that are moved.
    FormatError for a read of an unwritten chunk, or a deadlock."""
    machine = _Machine(programs, memory, where, name)
    machine.check_lanes()
    machine.play()
    return machine.done


class _Machine:
    def __init__(
        self, programs: Sequence[Program], memory: NamedMemory, where: Where, name: Callable[[Operand], str]
    ) -> None:
        self.programs, self.memory, self.where, self.name = programs, memory, where, name
        self.done = Execution()
        self.holds = dict(memory.given())  # cell -> label
        self.written: set[Cell] = set()
        self.lanes: dict[tuple[int, int, int], deque[list[int]]] = {}
        self.registers: dict[tuple[int, int, Space, int], list[int]] = {}
        self.next = {(p.rank, t): 0 for p in programs for t in range(len(p.threads))}
        self.wants: dict[object, list[tuple[int, int]]] = {}  # lane, or (rank, thread, step) -> threads

    def check_lanes(self) -> None:
        """Every lane has as many waits as signals."""
        count: dict[tuple[int, int, int], list[int]] = {}
        first: dict[tuple[int, int, int], At] = {}
        for p in self.programs:
            for t, thread in enumerate(p.threads):
                for s, i in enumerate(thread):
                    if i.kind in (Kind.SIGNAL, Kind.WAIT):
                        sends = i.kind is Kind.SIGNAL
                        lane = (p.rank, i.peer, i.channel) if sends else (i.peer, p.rank, i.channel)
                        count.setdefault(lane, [0, 0])[not sends] += 1
                        first.setdefault(lane, (p.rank, t, s))
        for lane, (sent, awaited) in count.items():
            if sent != awaited:
                raise FormatError(
                    f"{self.where(*first[lane])}: gpu {lane[0]} sends {sent} times to gpu {lane[1]} on channel "
                    f"{lane[2]}, which receives {awaited} times; expected as many"
                )

    def play(self) -> None:
        ready = deque(self.next)
        while ready:
            thread = ready.popleft()
            for wake in self._run(*thread):
                ready.extend(self.wants.pop(wake, ()))
        stuck = [(r, t, s) for (r, t), s in self.next.items() if s < len(self.programs[r].threads[t])]
        if stuck:
            raise FormatError(self._deadlock(stuck))

    def _run(self, rank: int, thread: int) -> Iterator[object]:
        """Runs the thread until an input is missing; yields the lanes and steps that others may wait for."""
        code = self.programs[rank].threads[thread]
        while self.next[rank, thread] < len(code):
            step = self.next[rank, thread]
            i = code[step]
            missing = self._missing(rank, i)
            if missing is not None:
                self.wants.setdefault(missing, []).append((rank, thread))
                return
            self._do(rank, thread, step, i)
            self.done.order.append((rank, thread, step))
            self.next[rank, thread] = step + 1
            yield rank, thread, step
            if i.kind is Kind.SIGNAL:
                yield rank, i.peer, i.channel, "lane"

    def _missing(self, rank: int, i: Instruction) -> object:
        for thread, step in i.after:
            if self.next[rank, thread] <= step:
                return rank, thread, step
        if i.kind is Kind.WAIT and not self.lanes.get((i.peer, rank, i.channel)):
            return i.peer, rank, i.channel, "lane"
        return None

    def _do(self, rank: int, thread: int, step: int, i: Instruction) -> None:
        if i.kind is Kind.SIGNAL:
            payload = self.registers[rank, thread, Space.SLOT, i.register] if i.register >= 0 else []
            self.lanes.setdefault((rank, i.peer, i.channel), deque()).append(payload)
        elif i.kind is Kind.WAIT:
            self.registers[rank, thread, Space.MESSAGE, i.register] = self.lanes[i.peer, rank, i.channel].popleft()
        elif i.kind is not Kind.RELEASE:
            self._move(rank, thread, step, i)

    def _move(self, rank: int, thread: int, step: int, i: Instruction) -> None:
        read = [self._read(rank, thread, step, o) for o in i.sources]
        if i.targets[0].count > 1:
            self._check_overlap(rank, thread, step, i)
        fresh = [[c not in self.written for c in self._cells(rank, o)] for o in (*i.targets, *i.sources)]
        labels = read[0]
        for o in i.targets:
            if o.space is Space.SLOT:
                self.registers[rank, thread, Space.SLOT, o.index] = labels
            cells = self._cells(rank, o)
            self.holds.update(zip(cells, labels, strict=False))
            self.written.update(cells)
        at = rank, thread, step
        self.done.labels[at] = [labels[0]] * len(i.targets) + [r[0] for r in read]
        self.done.fresh[at] = fresh

    def _check_overlap(self, rank: int, thread: int, step: int, i: Instruction) -> None:
        """Chunks that move within a buffer must not run into each other: their order would matter."""
        for target in (self._cells(rank, o) for o in i.targets):
            for o in i.sources:
                source = self._cells(rank, o)
                if source != target and not set(source).isdisjoint(target):
                    problem = f"writes over part of {self.name(o)}, which it reads; expected all of it or none"
                    raise FormatError(f"{self.where(rank, thread, step)}: {problem}")

    def _cells(self, rank: int, o: Operand) -> list[Cell]:
        return [] if o.space in (Space.SLOT, Space.MESSAGE) else self.memory.cells(rank, o)

    def _read(self, rank: int, thread: int, step: int, o: Operand) -> list[int]:
        if o.space in (Space.SLOT, Space.MESSAGE):
            labels = self.registers[rank, thread, o.space, o.index]
            if len(labels) != o.count:
                problem = f"takes {o.count} chunks from a message of {len(labels)}; expected as many"
                raise FormatError(f"{self.where(rank, thread, step)}: {problem}")
            return labels
        found = []
        for k, cell in enumerate(self.memory.cells(rank, o)):
            if cell not in self.holds:
                cells, given = self.name(o._replace(index=o.index + k, count=1)), self.memory.precondition(cell[0])
                raise FormatError(
                    f"{self.where(rank, thread, step)}: reads {cells}, which nothing has written before; of the "
                    f"{self.memory.chunks} chunks gpu {cell[0]} starts with {given.start}..{given.stop - 1}"
                )
            found.append(self.holds[cell])
        return found

    def _deadlock(self, stuck: list[At]) -> str:
        rank, thread, step = stuck[0]
        i = self.programs[rank].threads[thread][step]
        waits = f"a message from gpu {i.peer} on channel {i.channel}"
        for t, s in i.after:
            if self.next[rank, t] <= s:
                waits = self.where(rank, t, s).split(": ", 1)[-1]
                break
        return (
            f"{self.where(rank, thread, step)}: deadlock: waits for {waits}, which never comes; "
            f"{len(stuck)} thread blocks are stuck, whatever the number of slots"
        )
