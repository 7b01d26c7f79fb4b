"""A schedule as MSCCL XML.

Each stream of the schedule is a channel. On a gpu, a stream's first peer to send to and first peer to receive from
share a thread block, so do the second ones, and so on; a thread block does its steps in the schedule's order, and a
step that another thread block's must precede depends on it. What is received and sent on at once is one step.

The limits are RCCL's: 64 thread blocks a gpu, 64 steps each, 32 channels, and less than 72 chunks a step.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from xml.sax.saxutils import quoteattr

from ringtree.formats.imported import LARGEST_BYTES
from ringtree.formats.streams import (
    Cell,
    NotExpressible,
    StreamMove,
    Streams,
    letter,
    their_collective,
)
from ringtree.ir.schedule import Schedule

MOST_BLOCKS = 64
MOST_STEPS = 64
MOST_COUNT = 71
STEP_BYTES = 113
"""The length of the shortest step's line."""
KEPT: Mapping[str, str | int] = {"proto": "Simple", "minBytes": 0, "maxBytes": 0}
"""Facts that a file may take over from another one, with their usual values: 0 and 0 bytes are no limits."""
STREAMS = (8, 4, 2, 1, 16, 32)
"""Numbers of streams, tried in this order."""

Place = tuple[str, int]
"""A buffer's letter, and a chunk of it."""


def text(schedule: Schedule, facts: Mapping[str, str | int] = MappingProxyType({})) -> str:
    """The schedule as the text of an MSCCL XML file. `facts`: values for those of KEPT that are not the usual ones.
    NotExpressible: where the format or its runtimes have no room for it, as for rooted collectives."""
    coll = their_collective(schedule, "MSCCL XML")
    streams = Streams(schedule)
    _check_room(schedule, streams)
    refused = ""
    for most in STREAMS:
        try:
            gpus = _gpus(schedule, streams.rounds(most, MOST_COUNT))
            return "\n".join([*_lines(schedule, coll, gpus, {**KEPT, **facts}), ""])
        except NotExpressible as reason:
            refused = refused or str(reason)
    raise NotExpressible(refused)


def _check_room(schedule: Schedule, streams: Streams) -> None:
    """NotExpressible: where the receiving steps alone, one a transfer, are too many for the file or for a gpu."""
    received = streams.received()
    if int(received.max(initial=0)) > MOST_BLOCKS * MOST_STEPS:
        problem = f"{schedule.name} needs {int(received.max()):,} steps of a gpu at least"
        raise NotExpressible(
            f"{problem}; expected at most {MOST_BLOCKS * MOST_STEPS:,}, as many as MSCCL's runtimes have"
        )
    if (least := STEP_BYTES * int(received.sum())) > LARGEST_BYTES:
        raise NotExpressible(
            f"{schedule.name} takes {least:,} bytes at least; expected at most {LARGEST_BYTES:,}: fewer ranks"
        )


@dataclass(slots=True)
class _Step:
    """`before`: the (thread block, step) that must be done first; `awaited`: whether another waits for this one."""

    type: str
    source: Place
    target: Place
    count: int
    before: tuple[int, int] | None = None
    awaited: bool = False


@dataclass(slots=True)
class _Block:
    send: int
    recv: int
    channel: int
    steps: list[_Step] = field(default_factory=list)
    clock: dict[int, int] = field(default_factory=dict)
    """The steps of each thread block of the gpu that are done for certain when the next one of this begins."""


@dataclass(slots=True)
class _Access:
    """The last step that wrote a chunk, and the last steps that have read it since, by thread block."""

    writer: tuple[int, int] | None = None
    readers: dict[int, int] = field(default_factory=dict)


class _Gpu:
    """One gpu's thread blocks as they grow."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.blocks: list[_Block] = []
        self.sends: dict[tuple[int, int], int] = {}  # (stream, peer) -> thread block
        self.recvs: dict[tuple[int, int], int] = {}
        self.cells: dict[Cell, _Access] = {}
        self.clocks: dict[tuple[int, int], dict[int, int]] = {}  # what is certain after a step

    def add(self, move: StreamMove, rank: int) -> None:
        """The move's step here: a send, a receive, or a copy or an addition within the gpu."""
        at = self._block(move, rank)
        sends = not move.local and move.source == rank
        kind = "s" if sends else "r" if not move.reduce else "rrc"
        if move.local:
            kind = "re" if move.reduce else "cpy"
        read = move.read if sends or move.local else []
        written = [] if sends else move.written
        source, target = (
            (letter(self.schedule, buffer), chunk)
            for buffer, chunk in (
                (move.source_buffer, move.source_chunk),
                (move.target_buffer, move.target_chunk),
            )
        )
        if kind == "rrc":
            source = target
        before = self._awaited(at, [*read, *(written if move.reduce else [])], written)
        if before is not None or not self._fused(at, kind, source, move.count):
            self._append(at, _Step(kind, source, target, move.count, before))
        self._done(at, read, written)

    def _block(self, move: StreamMove, rank: int) -> int:
        """The thread block of a move, made where there is none. Local moves go to the stream's first."""
        stream = move.stream
        mine = [k for k, b in enumerate(self.blocks) if b.channel == stream]
        if move.local:
            return mine[0] if mine else self._new(stream)
        sends = move.source == rank
        known, peer = (self.sends, move.target) if sends else (self.recvs, move.source)
        if (stream, peer) not in known:
            way = "send" if sends else "recv"
            free = next((k for k in mine if getattr(self.blocks[k], way) < 0), None)
            at = self._new(stream) if free is None else free
            setattr(self.blocks[at], way, peer)
            known[stream, peer] = at
        return known[stream, peer]

    def _new(self, stream: int) -> int:
        if len(self.blocks) == MOST_BLOCKS:
            problem = f"{self.schedule.name} needs more than {MOST_BLOCKS} thread blocks of a gpu"
            raise NotExpressible(f"{problem}, as many as MSCCL's runtimes have")
        self.blocks.append(_Block(-1, -1, stream))
        return len(self.blocks) - 1

    def _append(self, at: int, step: _Step) -> None:
        steps = self.blocks[at].steps
        if len(steps) == MOST_STEPS:
            problem = f"{self.schedule.name} needs more than {MOST_STEPS} steps of a thread block"
            raise NotExpressible(f"{problem}, as many as MSCCL's runtimes have")
        steps.append(step)

    def _awaited(self, at: int, read: list[Cell], written: list[Cell]) -> tuple[int, int] | None:
        """The step of another thread block that the next one here waits for: the last of several, others are nops."""
        needed = self._needed(read, written)
        block = self.blocks[at]
        wanted: list[tuple[int, int]] = []
        for other, step in sorted(needed.items()):
            implied = any(self.clocks[o, s].get(other, 0) > step for o, s in needed.items() if o != other)
            if other != at and block.clock.get(other, 0) <= step and not implied:
                wanted.append((other, step))
        for other, step in wanted:
            self.blocks[other].steps[step].awaited = True
            for k, known in self.clocks[other, step].items():
                block.clock[k] = max(block.clock.get(k, 0), known)
        for before in wanted[:-1]:
            self._append(at, _Step("nop", ("i", -1), ("o", -1), 0, before))
            self._tick(at)
        return wanted[-1] if wanted else None

    def _needed(self, read: list[Cell], written: list[Cell]) -> dict[int, int]:
        """The last step of each thread block that must be done before chunks are read and written."""
        needed: dict[int, int] = {}
        for cell in (*read, *written):
            access = self.cells.get(cell, _Access())
            for block, step in [access.writer] if access.writer else []:
                needed[block] = max(needed.get(block, -1), step)
        for cell in written:
            for block, step in self.cells.get(cell, _Access()).readers.items():
                needed[block] = max(needed.get(block, -1), step)
        return needed

    def _fused(self, at: int, kind: str, source: Place, count: int) -> bool:
        """Makes a receive and the send of the same chunks that follows it at once one step."""
        steps = self.blocks[at].steps
        fused = {"r": "rcs", "rrc": "rrcs"}.get(steps[-1].type if steps else "")
        if kind != "s" or fused is None or (steps[-1].target, steps[-1].count) != (source, count):
            return False
        steps[-1].type = fused
        return True

    def _tick(self, at: int) -> None:
        block = self.blocks[at]
        block.clock[at] = len(block.steps)
        self.clocks[at, len(block.steps) - 1] = dict(block.clock)

    def _done(self, at: int, read: list[Cell], written: list[Cell]) -> None:
        self._tick(at)
        step = len(self.blocks[at].steps) - 1
        for cell in read:
            self.cells.setdefault(cell, _Access()).readers[at] = step
        for cell in written:
            self.cells[cell] = _Access((at, step))


def _gpus(schedule: Schedule, found: Iterable[list[StreamMove]]) -> list[_Gpu]:
    """All gpus' thread blocks. In a round, which reads the state at its start, all sends come first."""
    gpus = [_Gpu(schedule) for _ in range(schedule.ranks)]
    for each in found:
        for move in each:
            if not move.local:
                gpus[move.source].add(move, move.source)
        for move in each:
            gpus[move.target].add(move, move.target)
    return gpus


def _lines(schedule: Schedule, coll: str, gpus: list[_Gpu], kept: Mapping[str, str | int]) -> Iterator[str]:
    inplace = int(schedule.in_place)
    channels = max((b.channel for g in gpus for b in g.blocks), default=0) + 1
    yield (
        f'<algo name={quoteattr(schedule.name)} proto={quoteattr(str(kept["proto"]))} nchannels="{channels}" '
        f'nchunksperloop="{schedule.chunks}" ngpus="{schedule.ranks}" coll="{coll}" inplace="{inplace}" '
        f'outofplace="{1 - inplace}" minBytes={quoteattr(str(kept["minBytes"]))} '
        f"maxBytes={quoteattr(str(kept['maxBytes']))}>"
    )
    for rank, gpu in enumerate(gpus):
        given, made = len(schedule.precondition(rank)), len(schedule.postcondition(rank))
        sizes = f'i_chunks="{given}" o_chunks="{made}" s_chunks="{schedule.scratch}"'
        yield f'  <gpu id="{rank}" {sizes}>'
        for number, block in enumerate(gpu.blocks):
            yield f'    <tb id="{number}" send="{block.send}" recv="{block.recv}" chan="{block.channel}">'
            for s, step in enumerate(block.steps):
                block_id, before = step.before or (-1, -1)
                yield (
                    f'      <step s="{s}" type="{step.type}" srcbuf="{step.source[0]}" srcoff="{step.source[1]}" '
                    f'dstbuf="{step.target[0]}" dstoff="{step.target[1]}" cnt="{step.count}" depid="{block_id}" '
                    f'deps="{before}" hasdep="{int(step.awaited)}"/>'
                )
            yield "    </tb>"
        yield "  </gpu>"
    yield "</algo>"
