"""A program as groups of sends and receives with local work between them, bound to sizes.

A send of NCCL's ends when its receiver takes it, so a rank must offer what others wait for before it waits itself. A
program sends in each round before it receives, and hence a group is: all sends since the last group, and all receives
up to the rank's next send. Then the rank whose unfinished transfer has the least round has offered all of that round,
and so has its peer: no proved schedule can hang. (A test plays every algorithm's groups with sends that wait.)

Nothing is staged without need: a slot is a view of the memory it was copied from where nothing writes there before it
has left, and a message that is only stored is received where it belongs.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ringtree.ir.program import Kind, Space


class MemoryRange(NamedTuple):
    """Chunks of a rank's own memory: `extents` are (first element, elements), neighbours joined; `index` as in
    ir.program.Operand; `position`: the same in input and output where these may be one memory."""

    space: int
    index: int  # type: ignore[assignment]
    position: int
    chunks: int
    extents: tuple[tuple[int, int], ...]

    @property
    def elements(self) -> int:
        """The number of elements."""
        return sum(n for _, n in self.extents)

    def touches(self, other: MemoryRange) -> bool:
        """Whether the two may have memory in common. Input and output may be one memory, position by position."""
        if not self.elements or not other.elements:
            return False
        if self.space == other.space:
            return self.index < other.index + other.chunks and other.index < self.index + self.chunks
        if Space.SCRATCH in (self.space, other.space):
            return False
        return self.position < other.position + other.chunks and other.position < self.position + self.chunks


Source = MemoryRange | int
"""Memory that is read, or the number of a value: of a slot as it was written, or of a message."""


class Kept(NamedTuple):
    """A value that a step makes: its number, and whether it is a view, not a copy, of the result's memory."""

    value: int
    shared: bool


class Compute(NamedTuple):
    """A copy or a reduction of `sources`, in their order, to `targets`, and kept as values. `apart`: the result is made
    elsewhere first, since a target is read after the first source. `ready`: the result is where it belongs."""

    reduces: bool
    sources: tuple[Source, ...]
    targets: tuple[MemoryRange, ...]
    kept: tuple[Kept, ...]
    apart: bool = False
    ready: bool = False


class Receive(NamedTuple):
    """A message from `peer` of `elements`, kept as a value; `into`: the memory it is received in, else its own."""

    peer: int
    value: int
    elements: int
    into: MemoryRange | None


class TransferGroup(NamedTuple):
    """Transfers that begin together. `sends`: (peer, value)."""

    sends: tuple[tuple[int, int], ...]
    receives: tuple[Receive, ...]


@dataclass(frozen=True, slots=True)
class GroupedProgram:
    """One rank's steps. `scratch` in elements; `received`: (peer, elements, messages) of a run."""

    steps: tuple[Compute | TransferGroup, ...]
    scratch: int
    received: tuple[tuple[int, int, int], ...]

    def ends(self, space: Space) -> int:
        """The elements of that memory up to the last one that the program reads or writes."""
        places = [p for s in self.steps if isinstance(s, Compute) for p in (*s.sources, *s.targets)]
        extents = [e for p in places if isinstance(p, MemoryRange) and p.space == space for e in p.extents]
        return max((start + n for start, n in extents), default=0)


Exchanges = dict[int, tuple[list[int], list[int]]]
"""The groups of a list of items: position of the item that each comes before -> (positions of signals, of waits)."""


class _Item(NamedTuple):
    """An instruction with its values numbered: a signal and a wait have one in `values`."""

    kind: Kind
    peer: int = -1
    targets: tuple[MemoryRange, ...] = ()
    values: tuple[int, ...] = ()
    sources: tuple[Source, ...] = ()


def grouped(
    instructions: NDArray[np.int32],
    operands: NDArray[np.int32],
    sizes: NDArray[np.int64],
    input_offsets: NDArray[np.int64],
    output_offsets: NDArray[np.int64],
    scratch: int,
    transposes: bool = False,
) -> GroupedProgram:
    """The groups of a program that `Program.encode` wrote. `transposes`: its collective does, so that a chunk's label
    differs from its position. Cost: O(instructions), times those between a slot's writing and its last use."""
    reader = _Reader(sizes, input_offsets, output_offsets, scratch, transposes)
    items = list(reader.items(instructions.tolist(), operands.tolist()))
    exchanges = _exchanges(items)
    into = _received_in_place(items, exchanges)
    shared = _shared(items, exchanges, into)
    elements = reader.elements
    steps: list[Compute | TransferGroup] = []
    received: dict[int, list[int]] = {}
    for at in range(len(items) + 1):
        if at in exchanges:
            sends, waits = exchanges[at]
            receives = [Receive(items[w].peer, v := items[w].values[0], elements[v], into.get(v)) for w in waits]
            for r in receives:
                total = received.setdefault(r.peer, [0, 0])
                total[0], total[1] = total[0] + r.elements, total[1] + 1
            out = [(items[s].peer, items[s].values[0]) for s in sends if elements[items[s].values[0]]]
            steps.append(TransferGroup(tuple(out), tuple(receives)))
        if at < len(items) and items[at].kind in (Kind.COPY, Kind.REDUCE):
            steps.append(_compute(items[at], shared, into))
    counted = tuple((peer, total[0], total[1]) for peer, total in sorted(received.items()))
    return GroupedProgram(tuple(steps), reader.scratch, counted)


def _compute(item: _Item, shared: set[int], into: dict[int, MemoryRange]) -> Compute:
    first = item.sources[0]
    ready = item.kind is Kind.COPY and isinstance(first, int) and first in into
    places = [(at, s) for at, s in enumerate(item.sources) if isinstance(s, MemoryRange)]
    apart = any(t.touches(s) and (at > 0 or s.extents != t.extents) for t in item.targets for at, s in places)
    kept = tuple(Kept(value, value in shared) for value in item.values)
    return Compute(item.kind is Kind.REDUCE, item.sources, item.targets, kept, apart, ready)


@dataclass
class _Reader:
    """Reads encoded instructions: finds extents, and gives each message and each writing of a slot a number."""

    sizes: NDArray[np.int64]
    input_offsets: NDArray[np.int64]
    output_offsets: NDArray[np.int64]
    chunks: int
    transposes: bool
    elements: dict[int, int] = field(default_factory=dict)  # of each value

    def __post_init__(self) -> None:
        largest = int(self.sizes.max(initial=0))
        self.scratch = self.chunks * largest
        starts = [self.input_offsets, self.output_offsets, np.arange(self.chunks, dtype=np.int64) * largest]
        self._starts, self._sizes = [s.tolist() for s in starts], self.sizes.tolist()

    def items(self, heads: list[list[int]], operands: list[list[int]]) -> Iterator[_Item]:
        """The instructions but releases, and signals and waits without a payload."""
        slot: dict[int, int] = {}
        message: dict[int, int] = {}
        last = 0
        for kind, peer, register, first, targets, sources, _ in heads:
            if kind in (Kind.SIGNAL, Kind.WAIT) and register >= 0:
                if kind == Kind.WAIT:
                    message[register] = last = last + 1
                yield _Item(Kind(kind), peer, values=((slot if kind == Kind.SIGNAL else message)[register],))
            elif kind in (Kind.COPY, Kind.REDUCE):
                read: list[Source] = []
                for space, index, label, count in operands[first + targets : first + targets + sources]:
                    if space in (Space.SLOT, Space.MESSAGE):
                        read.append(value := (slot if space == Space.SLOT else message)[index])
                        self.elements[value] = sum(self._sizes[label : label + count])
                    else:
                        read.append(self._place(space, index, label, count))
                written: list[MemoryRange] = []
                values: list[int] = []
                for space, index, label, count in operands[first : first + targets]:
                    if space == Space.SLOT:
                        slot[index] = last = last + 1
                        self.elements[last] = sum(self._sizes[label : label + count])
                        values.append(last)
                    else:
                        written.append(self._place(space, index, label, count))
                yield _Item(Kind(kind), -1, tuple(written), tuple(values), tuple(read))

    def _place(self, space: int, index: int, label: int, count: int) -> MemoryRange:
        extents: list[tuple[int, int]] = []
        for k in range(count):
            start, size = self._starts[space][index + k], self._sizes[label + k]
            if extents and sum(extents[-1]) == start:
                extents[-1] = extents[-1][0], extents[-1][1] + size
            elif size:
                extents.append((start, size))
        return MemoryRange(space, index, index if self.transposes else label, count, tuple(extents))


def _exchanges(items: Sequence[_Item]) -> Exchanges:
    """The groups: each as late as a message is needed."""
    groups: Exchanges = {}
    waits = [at for at, item in enumerate(items) if item.kind is Kind.WAIT]
    signals = [at for at, item in enumerate(items) if item.kind is Kind.SIGNAL]
    numbers = {items[w].values[0]: n for n, w in enumerate(waits)}
    taken = 0  # waits that are in groups
    unsent: list[int] = []
    for at, item in enumerate(items):
        if item.kind is Kind.SIGNAL:
            unsent.append(at)
        if any(isinstance(s, int) and numbers.get(s, -1) >= taken for s in item.sources):
            next_send = bisect_left(signals, at)
            until = len(waits) if next_send == len(signals) else bisect_left(waits, signals[next_send])
            groups[at] = unsent, waits[taken:until]
            unsent, taken = [], until
    if unsent or taken < len(waits):
        groups[len(items)] = unsent, waits[taken:]
    return groups


def _received_in_place(items: Sequence[_Item], exchanges: Exchanges) -> dict[int, MemoryRange]:
    """The messages that can be received where they are stored: nothing reads or writes that memory from the group on
    until then, and no slot that leaves then or later was copied from there."""
    posted = {items[w].values[0]: at for at, (_, waits) in exchanges.items() for w in waits}
    readers: dict[int, list[int]] = {}
    for at, item in enumerate(items):
        for s in item.sources:
            if isinstance(s, int) and s in posted:
                readers.setdefault(s, []).append(at)
    found: dict[int, MemoryRange] = {}
    for value, reads in readers.items():
        if len(reads) != 1:
            continue
        item = items[reads[0]]
        if item.kind is not Kind.COPY or not item.targets or len(item.targets[0].extents) != 1:
            continue
        target = item.targets[0]
        between = items[posted[value] : reads[0]]
        if not any(target.touches(p) for other in between for p in _places(other)):
            found[value] = target
    return found


def _places(item: _Item) -> Iterator[MemoryRange]:
    yield from item.targets
    for s in item.sources:
        if isinstance(s, MemoryRange):
            yield s


def _shared(items: Sequence[_Item], exchanges: Exchanges, into: dict[int, MemoryRange]) -> set[int]:
    """The values that can be views: nothing writes to their memory until their last use."""
    sent_at = {s: at for at, (signals, _) in exchanges.items() for s in signals}
    last_use: dict[int, int] = {}
    for at, item in enumerate(items):
        if item.kind is Kind.SIGNAL:
            last_use[item.values[0]] = max(last_use.get(item.values[0], 0), sent_at[at])
        for s in item.sources:
            if isinstance(s, int):
                last_use[s] = max(last_use.get(s, 0), at)
    received = {
        at: [into[v] for w in waits if (v := items[w].values[0]) in into] for at, (_, waits) in exchanges.items()
    }
    slots = {value for item in items if item.kind in (Kind.COPY, Kind.REDUCE) for value in item.values}
    views: set[int] = set()
    for at, item in enumerate(items):
        if item.kind not in (Kind.COPY, Kind.REDUCE) or (not item.targets and item.sources[0] in slots):
            continue
        memory = _memory(item, into)
        for value in item.values:
            end = last_use.get(value, at)
            if memory is None or (len(memory.extents) <= 1 and not _written(memory, items, received, at + 1, end)):
                views.add(value)
    return views


def _memory(item: _Item, into: dict[int, MemoryRange]) -> MemoryRange | None:
    """The memory that an item's slots would be views of; None for memory of the result's own."""
    if item.targets:
        return item.targets[0]
    first = item.sources[0]
    if item.kind is Kind.REDUCE:
        return None
    return into.get(first) if isinstance(first, int) else first


def _written(
    memory: MemoryRange, items: Sequence[_Item], received: dict[int, list[MemoryRange]], start: int, end: int
) -> bool:
    """Whether an item from `start` up to `end`, or a group up to and with that at `end`, writes to that memory."""
    for at in range(start, end + 1):
        if any(memory.touches(p) for p in received.get(at, ())):
            return True
        if at < end and any(memory.touches(p) for p in items[at].targets):
            return True
    return False
