"""A rank's program bound to sizes, as the tables that devices read (csrc/device/program.h).

What `Program.encode` writes is made into what a device can do at once: signals, waits and releases of different peers
that follow each other are one step, and bytes that lie still until they are read are sent from where they lie.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ringtree.ir.collective import collective as find_collective
from ringtree.ir.program import Kind, Space
from ringtree.runtime.engines.device.gathering import gathered
from ringtree.runtime.engines.protocols import Land
from ringtree.runtime.types import LOGICAL, OPS, Dtype

MOST_OPERANDS, MOST_REGISTERS = 80, 512
INSTRUCTION, OPERAND = 17, 4
"""Words of an instruction, and of an operand."""

Ints = NDArray[np.int64]
Stretch = tuple[int, int, int]
"""An axis, and the elements on it from one to another."""


class Pause(NamedTuple):
    """Before the instruction of that number, a message from each of these peers must have come."""

    instruction: int
    peers: tuple[int, ...]


class DeviceCode(NamedTuple):
    """The tables of a program: `instructions` and `operands` in 32-bit words, `settles` pairs of (peer, message),
    `lands` pairs of (peer, element), `outputs` the runs of the output that an average ends with. `received`: bytes and
    messages from each rank in a call. `extents`: the elements of input and output that are touched."""

    instructions: NDArray[np.int32]
    operands: NDArray[np.int32]
    settles: NDArray[np.int32]
    lands: Ints
    outputs: Ints
    received: Ints
    extents: tuple[int, int]

    @property
    def waits(self) -> tuple[Pause, ...]:
        """The runs of waits: where each begins, and the peers."""
        found, at = list[Pause](), 0
        while at < len(self.instructions):
            kind, run = int(self.instructions[at, 0]), int(self.instructions[at, 6])
            if kind == Kind.WAIT:
                found.append(Pause(at, tuple(self.instructions[at : at + run, 1].tolist())))
            at += run if kind > Kind.REDUCE else 1
        return tuple(found)

    @property
    def sent(self) -> dict[int, int]:
        """The messages to each peer in a window."""
        to = self.instructions[self.instructions[:, 0] == Kind.SIGNAL, 1]
        return {int(peer): int(count) for peer, count in zip(*np.unique(to, return_counts=True), strict=True)}


class ProgramEncoder:
    """Encodes one program for a rank of `ranks`. Arguments as of `Programs.prepare`."""

    def __init__(
        self,
        instructions: NDArray[np.int32],
        operands: NDArray[np.int32],
        sizes: Ints,
        input_offsets: Ints,
        output_offsets: Ints,
        window: int,
        collective: str,
        ranks: int,
        lands: tuple[Land, ...] = (),
    ) -> None:
        self.lands = lands
        self.code, self.operands, self.order = gathered(instructions.tolist(), operands.tolist(), ranks)
        self.sizes = sizes
        self.starts = np.concatenate([[0], np.cumsum(sizes)]).tolist()
        self.offsets = {Space.INPUT: input_offsets.tolist(), Space.OUTPUT: output_offsets.tolist()}
        largest = max(int(sizes.max(initial=0)), 1)
        self.window = min(window, largest) if window > 0 else largest
        self.windows = -(-largest // self.window)
        self.moves = bool(find_collective(collective).transposes)
        self.ranks = ranks
        self.lies_still = False
        self.lies = dict[int, tuple[Stretch | None, Stretch | None]]()  # of slots, apart and where the arrays are one
        self.sent = dict[int, int]()
        self.lying = list[tuple[int, int, Stretch | None, Stretch | None]]()  # messages: peer, number, where they lie

    def encode(self, item: int, least_lying_bytes: int = 0) -> DeviceCode:
        """The tables. `item`: bytes of an element; `least_lying_bytes`: of a window's messages together, less are
        staged. ValueError for a program that no device has room for."""
        rows, operands, settles = list[list[int]](), list[list[int]](), list[tuple[int, int]]()
        runs, takes = self._runs(), self._takes()
        self.lies_still = self._staged_bytes(item) >= least_lying_bytes
        for at, (kind, peer, register, first, targets, sources, _) in enumerate(self.code):
            row = [kind, peer, register, len(operands), targets, sources, runs[at], *([0] * 10)]
            if kind in (Kind.COPY, Kind.REDUCE):
                if targets + sources > MOST_OPERANDS:
                    raise ValueError(f"instruction {at} has {targets + sources} operands; a device has {MOST_OPERANDS}")
                own = self._targets(first, targets)
                read = self.operands[first + targets : first + targets + sources]
                row[2] = own[-1][1] if own[-1][0] == Space.SLOT else -1
                for same in (False, True):
                    owed = self._overwritten(own, same)
                    row[9 + same], row[11 + same] = len(settles), len(owed)
                    settles += owed
                mine = [k for k, land in enumerate(self.lands) if land.instruction == self.order[at]]
                row[13:15] = [mine[0], len(mine)] if mine and self.lies_still else [0, 0]
                row[15] = self._named_until(at, row[2]) if row[2] >= 0 else 0
                row[7], row[8] = self._write_slot(at, own, read)
                operands += own + read
            elif kind == Kind.SIGNAL:
                self._send(peer, register)
            elif kind == Kind.WAIT:
                row[16] = takes[at]
            if row[2] >= MOST_REGISTERS:
                raise ValueError(f"instruction {at} names register {row[2]}; a device has {MOST_REGISTERS}")
            rows.append(row)
        return DeviceCode(
            np.array(rows, np.int32).reshape(-1, INSTRUCTION),
            np.array(operands, np.int32).reshape(-1, OPERAND),
            np.array(settles, np.int32).reshape(-1, 2),
            np.array([(land.peer, land.offset) for land in self.lands], np.int64).reshape(-1, 2),
            self._outputs(),
            self._received(item),
            (self._extent(Space.INPUT), self._extent(Space.OUTPUT)),
        )

    @property
    def widest(self) -> int:
        """The most chunks that this rank puts into a slot."""
        return max((count for space, _, _, count in self.operands if space == Space.SLOT), default=0)

    def _extent(self, space: Space) -> int:
        ends = (
            self.offsets[space][index + k] + int(self.sizes[label + k])
            for named, index, label, count in self.operands
            for k in range(count)
            if named == space
        )
        return max(ends, default=0)

    def _staged_bytes(self, item: int) -> int:
        """Bytes that slots take in a window, were all messages staged."""
        slots = (o for o in self.operands if o[0] == Space.SLOT)
        return sum(min(int(self.sizes[o[2] + k]), self.window) for o in slots for k in range(o[3])) * item

    def _targets(self, first: int, targets: int) -> list[list[int]]:
        """An instruction's targets, a slot last."""
        return sorted(self.operands[first : first + targets], key=lambda o: o[0] == Space.SLOT)

    def _write_slot(self, at: int, own: list[list[int]], read: list[list[int]]) -> tuple[int, int]:
        """Notes where a slot's bytes lie, where the arrays are apart and where they are one; returns 1 + the number of
        the operand that they are, 0 where they are staged."""
        if own[-1][0] != Space.SLOT:
            return 0, 0
        number = self._lies_at(at, own) if self.lies_still else 0
        lying = (own + read)[number - 1] if number else None
        places = [self._stretch(lying, same) if lying else None for same in (False, True)]
        kept = [None if place and self._reduced_into(at, place, same) else place for same, place in enumerate(places)]
        if self.moves:
            kept[1] = None
        self.lies[own[-1][1]] = kept[0], kept[1]
        return number if kept[0] else 0, number if kept[1] else 0

    def _reduced_into(self, at: int, place: Stretch, same: int) -> bool:
        """Whether a later instruction reduces into those bytes: ranks that send each other what they then reduce into
        would all wait until it is read."""
        for kind, _, _, first, targets, _, _ in self.code[at + 1 :]:
            if kind == Kind.REDUCE:
                for o in self.operands[first : first + targets]:
                    written = self._stretch(o, bool(same))
                    if written and _overlap(place, written):
                        return True
        return False

    def _send(self, peer: int, register: int) -> None:
        self.sent[peer] = self.sent.get(peer, 0) + 1
        if register >= 0 and self.lies[register] != (None, None):
            self.lying.append((peer, self.sent[peer], *self.lies[register]))

    def _overwritten(self, targets: list[list[int]], same: bool) -> list[tuple[int, int]]:
        """The messages whose bytes an instruction overwrites, the last to each peer: it may still read them where they
        lie. `same`: input and output are one array."""
        if same and self.moves:
            return []  # such a call has its input apart
        last = dict[int, int]()
        for written in filter(None, (self._stretch(o, same) for o in targets)):
            for peer, nth, *places in self.lying:
                place = places[same]
                if place and _overlap(place, written):
                    last[peer] = nth
        return sorted(last.items())

    def _runs(self) -> list[int]:
        """The number, for each signal, wait and release, of those from it on that are done at once: each of another
        peer."""
        runs = [1] * len(self.code)
        begin = 0
        for at in range(1, len(self.code)):
            kind = self.code[at][0]
            peers = {row[1] for row in self.code[begin:at]}
            if kind in (Kind.COPY, Kind.REDUCE) or kind != self.code[begin][0] or self.code[at][1] in peers:
                begin = at
            else:
                runs[begin] += 1
        return runs

    def _takes(self) -> list[int]:
        """The number, for each wait, of messages from it on that are only copied to the output, and given back then:
        one behind the other, each of another peer."""
        found, peers = [0] * (len(self.code) + 3), set[int]()
        for at in range(len(self.code) - 3, -1, -1):
            if not self._is_taken(at):
                continue
            peer = self.code[at][1]
            peers = {peer, *peers} if found[at + 3] and peer not in peers else {peer}
            found[at] = len(peers)
        return found

    def _is_taken(self, at: int) -> bool:
        wait, copy, release = self.code[at : at + 3]
        if (wait[0], copy[0], release[0]) != (Kind.WAIT, Kind.COPY, Kind.RELEASE) or copy[4] != 1:
            return False
        target, source = self.operands[copy[3] : copy[3] + 2]
        is_read = source[:2] == [Space.MESSAGE, wait[2]]
        return wait[1] == release[1] and is_read and target[0] == Space.OUTPUT

    def _lies_at(self, at: int, targets: list[list[int]]) -> int:
        """1 + the operand whose bytes the slot would hold, where only signals name the slot, before an instruction
        writes an array, and the bytes are in the arrays; else 0."""
        if targets[-1][0] != Space.SLOT:
            return 0
        register, after, signals = targets[-1][1], at + 1, 0
        while after < len(self.code) and self._writes_no_array(after):
            signals += self.code[after][0] == Kind.SIGNAL and self.code[after][2] == register
            after += 1
        if not signals or self._named_until(at, register) >= after:
            return 0
        kind, _, _, first, count, _, _ = self.code[at]
        given = [targets[0]] if len(targets) > 1 else []
        source = self.operands[first + count] if kind == Kind.COPY else None
        for place, operand in enumerate(given):
            if operand[0] == Space.OUTPUT and self._contiguous(operand):
                return 1 + place
        if source is not None and source[0] in self.offsets and self._contiguous(source):
            return 1 + len(targets)
        return 0

    def _writes_no_array(self, at: int) -> bool:
        kind, _, _, first, targets, _, _ = self.code[at]
        if kind in (Kind.COPY, Kind.REDUCE):
            return targets == 1 and self.operands[first][0] == Space.SLOT
        return kind in (Kind.SIGNAL, Kind.RELEASE)

    def _named_until(self, at: int, register: int) -> int:
        """The last instruction that names the slot that the one at `at` writes."""
        last = at
        for later, (kind, _, named, first, targets, sources, _) in enumerate(self.code[at + 1 :], at + 1):
            if kind == Kind.SIGNAL and named == register:
                last = later
            if kind in (Kind.COPY, Kind.REDUCE):
                slots = [
                    o[0] == Space.SLOT and o[1] == register for o in self.operands[first : first + targets + sources]
                ]
                if any(slots[targets:]):
                    last = later
                if any(slots[:targets]):
                    break
        return last

    def _contiguous(self, o: list[int]) -> bool:
        space, index, label, count = o
        offsets = self.offsets[Space(space)]
        return all(
            offsets[index + k] - offsets[index] == self.starts[label + k] - self.starts[label] for k in range(count)
        )

    def _stretch(self, o: list[int], same: bool) -> Stretch | None:
        """The elements of an operand in the arrays; where these are the `same`, by position on the whole vector."""
        space, index, label, count = o
        if space not in self.offsets:
            return None
        if same:
            return 0, self.starts[label], self.starts[label + count]
        begin = self.offsets[Space(space)][index]
        return space, begin, begin + self.starts[label + count] - self.starts[label]

    def _outputs(self) -> Ints:
        """The runs of elements that the program writes of its output."""
        found = set()
        for kind, _, _, first, targets, _, _ in self.code:
            if kind in (Kind.COPY, Kind.REDUCE):
                for space, index, label, count in self.operands[first : first + targets]:
                    if space == Space.OUTPUT:
                        offsets = self.offsets[Space.OUTPUT]
                        found |= {(offsets[index + k], int(self.sizes[label + k])) for k in range(count)}
        return np.array(sorted(found), np.int64).reshape(-1, 2)

    def _received(self, item: int) -> Ints:
        """[ranks, 2]: bytes and messages that come from each rank."""
        total = np.zeros((self.ranks, 2), np.int64)
        held = dict[int, int]()
        for kind, peer, register, first, targets, sources, _ in self.code:
            if kind == Kind.WAIT:
                total[peer, 1] += self.windows
                held[register] = peer
            if kind in (Kind.COPY, Kind.REDUCE):
                for space, index, label, count in self.operands[first + targets : first + targets + sources]:
                    if space == Space.MESSAGE and index in held:
                        total[held.pop(index), 0] += (self.starts[label + count] - self.starts[label]) * item
        return total


def _overlap(a: Stretch, b: Stretch) -> bool:
    return a[0] == b[0] and a[1] < b[2] and b[1] < a[2]


def finishes(dtype: Dtype, op: int) -> bool:
    """Whether results are finished at the end: an average divided, a logical value made 0 or 1."""
    name = next((name for name, code in OPS.items() if code == op), "")
    return name in LOGICAL or (name == "avg" and dtype is not Dtype.BOOL)
