"""Checks that every pair of conflicting accesses is ordered, for any timing.

Two steps conflict when they touch the same chunk of the same rank's memory and one of them writes. They are ordered
by program order, by `after`, and by a signal and the wait that takes it; that a slot was reused orders steps too, but
only for a given number of slots, so it counts only where that number is given. One execution is played with vector
clocks: if all pairs are ordered in it, they are in every other. Cost: O(accesses + synchronisations * threads).
(Slots need no check here: wiring has checked that a message is read only while it is held.)
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ringtree.ir.collective import collective
from ringtree.ir.program import Instruction, Kind, Operand, Space
from ringtree.verify.progress import Runs
from ringtree.verify.wiring import BARE, FILL, Wiring
from ringtree.verify.wording import ProofError

Clock = NDArray[np.int32]
"""clock[t] = k: the first k steps of thread t are done for certain."""


@dataclass(frozen=True, slots=True)
class Openness:
    """The accesses of a one-sided program that its surroundings must order: the first access to a peer's memory that
    may come before the peer has begun, and the first that may come after it has ended; in words, None if there is no
    such access."""

    before: str | None = None
    after: str | None = None


def check_races(w: Wiring, runs: Runs, *, slots: int | None = None) -> Openness:
    """Raises ProofError naming both steps of the first race. `slots`: the number that all engines will have."""
    watch = _Watch(w, slots)
    for thread, first, stop in runs:
        for step in range(first, stop):
            watch.step(thread, step)
    return Openness(watch.early, watch.late())


class _Cell:
    """One chunk of memory: its last writer, and its readers since (thread -> last such step)."""

    __slots__ = ("readers", "step", "writer")

    def __init__(self) -> None:
        self.writer, self.step = -1, -1
        self.readers: dict[int, int] = {}


class _Watch:
    def __init__(self, w: Wiring, slots: int | None) -> None:
        self.w, self.slots = w, slots
        many = len(w.threads)
        self.clock: list[Clock] = [np.zeros(many, dtype=np.int32) for _ in range(many)]
        self.carried: list[deque[Clock]] = [deque() for _ in w.lanes]
        self.lane = {(x.source, x.target, x.channel): x.number for x in w.lanes}
        self.marks: dict[tuple[int, int], Clock | None] = dict.fromkeys(w.after)
        self.given = [0] * len(w.lanes)
        self.freed: dict[int, Clock] = {}  # payload -> the steps that are certain once its slot is free
        self.fills = [{step: x for step, e, x in t.events if e == FILL} for t in w.threads]
        self.cells: dict[tuple[int, int, int], _Cell] = {}
        self.shift = [self._shifts(rank) for rank in range(len(w.programs))]
        self.early: str | None = None
        self.remote: dict[tuple[int, int], int] = {}  # (owner, thread) -> its last access there

    def _shifts(self, rank: int) -> tuple[tuple[int, int], ...]:
        """Per space: (the space that stands for it here, the offset of its chunks there)."""
        p = self.w.programs[rank]
        if not (self.w.in_place or p.aliasable):
            return (0, 0), (1, 0), (2, 0)
        promise, where = collective(p.collective), (rank, p.ranks, p.chunks, p.root or 0)
        return (0, promise.precondition(*where).start), (0, promise.postcondition(*where).start), (2, 0)

    def step(self, thread: int, step: int) -> None:
        t = self.w.threads[thread]
        i, clock = t.code[step], self.clock[thread]
        siblings = self.w.at[t.rank]
        for other, before in i.after:
            mark = self.marks[siblings[other], before]
            if mark is not None:
                np.maximum(clock, mark, out=clock)
        if i.kind <= Kind.REDUCE:
            if self.slots is not None and step in self.fills[thread]:
                self._reuse(clock, self.fills[thread][step])
            self._access(thread, step, i)
        elif i.kind == Kind.WAIT:
            np.maximum(clock, self.carried[self.lane[i.peer, t.rank, i.channel]].popleft(), out=clock)
        clock[thread] = step + 1
        if i.kind == Kind.SIGNAL:
            self.carried[self.lane[t.rank, i.peer, i.channel]].append(clock.copy())
        elif i.kind == Kind.RELEASE:
            self._release(self.lane[i.peer, t.rank, i.channel], clock)
        if (thread, step) in self.marks:
            self.marks[thread, step] = clock.copy()

    def _release(self, lane: int, clock: Clock) -> None:
        payload = self.w.lanes[lane].payloads[self.given[lane]]
        self.given[lane] += 1
        if self.slots is not None and payload != BARE:
            known = self.freed.get(payload)
            self.freed[payload] = clock.copy() if known is None else np.maximum(known, clock)

    def _reuse(self, clock: Clock, payload: int) -> None:
        assert self.slots is not None
        for pool, ordinal in self.w.positions[payload]:
            if ordinal >= self.slots:
                freed = self.freed.get(self.w.pools[pool][ordinal - self.slots])
                if freed is not None:
                    np.maximum(clock, freed, out=clock)

    def _access(self, thread: int, step: int, i: Instruction) -> None:
        for o in i.sources:
            if o.space < Space.SLOT:
                for cell in self._cells(thread, step, o):
                    self._ordered(thread, step, cell, cell.writer, cell.step, o)
                    cell.readers[thread] = step
        for o in i.targets:
            if o.space < Space.SLOT:
                for cell in self._cells(thread, step, o):
                    self._ordered(thread, step, cell, cell.writer, cell.step, o)
                    for reader, at in cell.readers.items():
                        self._ordered(thread, step, cell, reader, at, o)
                    cell.readers.clear()
                    cell.writer, cell.step = thread, step

    def _cells(self, thread: int, step: int, o: Operand) -> list[_Cell]:
        own = self.w.threads[thread].rank
        rank = o.rank if o.rank >= 0 else own
        if rank != own:
            self.remote[rank, thread] = step
            if self.early is None and not any(self.clock[thread][x] for x in self.w.at[rank]):
                self.early = f"{self.w.where(thread, step)} may touch rank {rank}'s memory before rank {rank} has begun"
        space, shift = self.shift[rank][o.space]
        found = []
        for index in range(o.index + shift, o.index + shift + o.count):
            cell = self.cells.get((rank, space, index))
            if cell is None:
                cell = self.cells[rank, space, index] = _Cell()
            found.append(cell)
        return found

    def _ordered(self, thread: int, step: int, cell: _Cell, other: int, at: int, o: Operand) -> None:
        """Raises ProofError unless step `at` of `other` is certainly done when this step runs."""
        if other < 0 or other == thread or self.clock[thread][other] > at:
            return
        rank = o.rank if o.rank >= 0 else self.w.threads[thread].rank
        what = f"rank {rank}'s {Space(o.space).name.lower()}[{o.index}" + (
            f":{o.index + o.count}]" if o.count > 1 else "]"
        )
        raise ProofError(
            f"{self.w.name}: race: {self.w.where(other, at)} and {self.w.where(thread, step)} both touch {what}, at "
            "least one writes, and nothing orders them",
            rank=rank,
        )

    def late(self) -> str | None:
        """The first access to a peer's memory that is not ordered before the peer's end."""
        for (rank, thread), step in self.remote.items():
            if all(self.clock[x][thread] <= step for x in self.w.at[rank]):
                return f"{self.w.where(thread, step)} may touch rank {rank}'s memory after rank {rank} has ended"
        return None
