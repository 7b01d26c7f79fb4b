"""The tables of a small call, whose messages travel in flagged words (csrc/device/flagged.h).

For each thread block the host works out which bytes it moves, and where they lie: behind an array, or behind a lane.
Both ends of a message lay it out alike: its chunks behind each other, each in whole vectors of 16 bytes.
"""

from __future__ import annotations

import struct
from collections import Counter
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ringtree.ir.plain_messages import PlainMessages
from ringtree.ir.program import Kind, Space
from ringtree.runtime.engines.device.lanes import MESSAGES_IN_LANE, LaneLayout

HEAD = struct.Struct("=2iIi2iq")
NUMBERS = struct.Struct("=2h")
STEP = struct.Struct("=2i4h")
RESOLVING = struct.Struct("=q4h")
MOST_OPERANDS = 384
"""The most operands of a block (csrc/device/program.h)."""
VECTOR_BYTES = 16

Row = list[int]
Ints = NDArray[np.int64]


class StepKind(IntEnum):
    """The kind of a step."""

    COPYING = 0
    REDUCING = 1
    FINISHING = 2


class Shares(NamedTuple):
    """The elements of each chunk [label] that each block has: from `begin` to `end` [block, label]; `part`: of the
    longest chunk, in whole runs of 64."""

    begin: Ints
    end: Ints
    part: int


class _Resolving(NamedTuple):
    """An operand of a block: see csrc/device/program.h."""

    offset: int
    space: int
    peer: int = 0
    nth: int = 0


def shares(sizes: Ints, blocks: int) -> Shares:
    """The shares of blocks in chunks, as csrc/device/addresses.h has them."""
    part = ((sizes + 63) // 64 + blocks - 1) // blocks * 64
    begin = np.minimum(part[None, :] * np.arange(blocks)[:, None], sizes[None, :])
    return Shares(begin, np.minimum(begin + part[None, :], sizes[None, :]), int(part.max(initial=0)))


def fits(plain: PlainMessages | None, shares: Shares, item: int, flagged_bytes: int) -> bool:
    """Whether the messages of a program fit their places; all ranks say the same, of the widest message of all, were it
    of the largest chunks. No chunk may be empty: who waits for nothing would not find another call of a peer."""
    labels = shares.end.shape[1]
    if plain is None or plain.messages > MESSAGES_IN_LANE or plain.operands + labels > MOST_OPERANDS:
        return False
    if not shares.end[-1].all():
        return False
    largest = int((shares.end - shares.begin).max(initial=0)) * item
    return plain.chunks * -(-largest // VECTOR_BYTES) * VECTOR_BYTES <= flagged_bytes


def finished_by(shares_of_runs: Shares, runs: Ints, block: int) -> list[tuple[int, int]]:
    """The part of a block in the runs [first element, elements] of an output."""
    begin, end = shares_of_runs.begin[block], shares_of_runs.end[block]
    return [(int(run[0]) + int(b), int(e - b)) for run, b, e in zip(runs, begin, end, strict=True) if e > b]


class FlaggedEncoder:
    """Encodes a rank's program. `instructions`, `operands`, `sizes`, and `offsets`, of input and output in elements, as
    of `Programs.prepare`; `item`: bytes of an element."""

    def __init__(
        self,
        instructions: list[Row],
        operands: list[Row],
        offsets: tuple[list[int], list[int]],
        shares: Shares,
        item: int,
        rank: int,
        lanes: LaneLayout,
    ) -> None:
        self._code, self._operands, self._offsets = instructions, operands, offsets
        self._begin, self._end, self._part = shares.begin.tolist(), shares.end.tolist(), shares.part
        self._item, self._rank, self._lanes = item, rank, lanes
        self._sent, self._taken = Counter[int](), Counter[int]()
        self._signals = self._signals_of()

    def _signals_of(self) -> dict[int, list[tuple[int, int]]]:
        """(peer, message) of the signals of the slot that an instruction writes, by its number."""
        found, writer = dict[int, list[tuple[int, int]]](), dict[int, int]()
        for at, (kind, peer, register, first, targets, *_) in enumerate(self._code):
            if kind == Kind.SIGNAL:
                self._sent[peer] += 1
                found[writer[register]].append((peer, self._sent[peer]))
            elif kind in (Kind.COPY, Kind.REDUCE):
                for space, index, _, _ in self._operands[first : first + targets]:
                    if space == Space.SLOT:
                        writer[index] = at
                        found[at] = []
        return found

    def encode(
        self, block: int, scratch_chunks: int, arithmetic: tuple[int, int], digest: int, finished: list[tuple[int, int]]
    ) -> bytes:
        """The tables of a block. `finished`: of the runs of the output that an average ends with, what the block has:
        the first element, and how many."""
        self._taken.clear()
        held = dict[int, tuple[int, int]]()
        steps, operands = list[bytes](), list[bytes]()
        for at, (kind, peer, register, first, targets, sources, _) in enumerate(self._code):
            if kind == Kind.WAIT:
                self._taken[peer] += 1
                held[register] = peer, self._taken[peer]
            if kind not in (Kind.COPY, Kind.REDUCE):
                continue
            named = self._operands[first : first + targets + sources]
            label, count = named[0][2:]
            for piece in range(count):
                elements = self._end[block][label + piece] - self._begin[block][label + piece]
                if not elements:
                    continue
                to = [r for o in named[:targets] for r in self._targets(at, o, piece, block, scratch_chunks)]
                read = [self._source(o, piece, block, scratch_chunks, held) for o in named[targets:]]
                if not to:
                    continue
                steps.append(STEP.pack(elements, elements * self._item, kind, len(operands), len(to), len(read)))
                operands += [RESOLVING.pack(*r, 0) for r in to + read]
        for element, elements in finished:
            steps.append(STEP.pack(elements, elements * self._item, StepKind.FINISHING, len(operands), 1, 0))
            operands.append(RESOLVING.pack(element * self._item, Space.OUTPUT, 0, 0, 0))
        ranks = self._lanes.ranks
        numbers = b"".join(NUMBERS.pack(self._sent[peer], self._taken[peer]) for peer in range(ranks))
        head = HEAD.pack(len(steps), len(operands), digest, 0, *arithmetic, 0)
        return head + numbers + bytes(-len(numbers) % VECTOR_BYTES) + b"".join(steps + operands)

    def _targets(self, at: int, o: Row, piece: int, block: int, scratch_chunks: int) -> list[_Resolving]:
        if o[0] != Space.SLOT:
            return [self._in_memory(o, piece, block, scratch_chunks)]
        offset = self._lane(self._rank, block) + 2 * self._before(o, piece, block)
        return [_Resolving(offset, Space.SLOT, peer, nth) for peer, nth in self._signals[at]]

    def _source(
        self, o: Row, piece: int, block: int, scratch_chunks: int, held: dict[int, tuple[int, int]]
    ) -> _Resolving:
        if o[0] != Space.MESSAGE:
            return self._in_memory(o, piece, block, scratch_chunks)
        peer, nth = held[o[1]]
        return _Resolving(self._lane(peer, block) + 2 * self._before(o, piece, block), Space.MESSAGE, peer, nth)

    def _in_memory(self, o: Row, piece: int, block: int, scratch_chunks: int) -> _Resolving:
        space, index, label, _ = o
        if space == Space.SCRATCH:
            return _Resolving((block * scratch_chunks + index + piece) * self._part * self._item, space)
        element = self._offsets[space][index + piece] + self._begin[block][label + piece]
        return _Resolving(element * self._item, space)

    def _lane(self, sender: int, block: int) -> int:
        """The offset of the flagged messages from a rank, in the receiver's memory."""
        return self._lanes.flagged_lane(sender, block)

    def _before(self, o: Row, piece: int, block: int) -> int:
        """Bytes of a message before one of its chunks."""
        chunks = range(o[2], o[2] + piece)
        return sum(
            -(-(self._end[block][k] - self._begin[block][k]) * self._item // VECTOR_BYTES) * VECTOR_BYTES
            for k in chunks
        )
