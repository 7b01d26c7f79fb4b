"""A program: the instructions of one rank, which engines interpret without knowing the algorithm.

A program is a few *threads* (one in everything ringtree lowers; imported files have many), each a list of
instructions of five kinds. Messages travel in *lanes*: one first-in-first-out lane per (sender, receiver, channel).

    copy     targets <- source
    reduce   targets <- sources, in the order listed (a target that is to be added to is listed as a source)
    signal   publish slot `register` to the lane to `peer` (register -1: a bare signal, no payload)
    wait     take the next message of the lane from `peer` into message `register` (-1: a bare one)
    release  give the oldest held message from `peer` back, so that its slot may be reused

A *slot* is staging memory of the sender, taken when an instruction first writes slot `register`, and reused by the
engine once every receiver it was signalled to has released it. Programs name slots; engines own them.

A *multicast* is one message to all other ranks: a run of signals, one to each, and the waits and releases for them. An
engine may carry it as one, or as so many: they are the only messages between their ranks in their round, so the order
of messages from one rank to another is the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ringtree.ir.digest import sha256


class Kind(IntEnum):
    """The kind of an instruction."""

    COPY = 0
    REDUCE = 1
    SIGNAL = 2
    WAIT = 3
    RELEASE = 4


class Space(IntEnum):
    """The memory of an operand. INPUT and OUTPUT are the rank's own windows; SLOT and MESSAGE are named by register."""

    INPUT = 0
    OUTPUT = 1
    SCRATCH = 2
    SLOT = 3
    MESSAGE = 4


class Operand(NamedTuple):
    """`count` chunks of a space from `index` (for SLOT and MESSAGE: a register).

    `label` determines their sizes: the position on the whole vector, or origin * chunks + position where the collective
    transposes. `rank` is the rank whose memory it is, -1 the program's own: a one-sided program reads and writes its
    peers' directly.
    """

    space: Space
    index: int  # type: ignore[assignment]  # the word fits better than tuple.index would be missed
    label: int
    count: int = 1  # type: ignore[assignment]
    rank: int = -1


class Instruction(NamedTuple):
    """`after`: (thread, step) pairs of the same rank that must finish first, besides the steps above it. `multicast`:
    of a signal, a wait or a release, that its message is part of one."""

    kind: Kind
    targets: tuple[Operand, ...] = ()
    sources: tuple[Operand, ...] = ()
    peer: int = -1
    register: int = -1
    channel: int = 0
    after: tuple[tuple[int, int], ...] = ()
    multicast: bool = False


@dataclass(frozen=True, slots=True)
class Program:
    """One rank's part of a schedule. `chunks` and `scratch` are in chunks; `aliasable`: whether input and output
    may be the same memory (if not, the caller keeps a copy of the input)."""

    name: str
    collective: str
    rank: int
    ranks: int
    chunks: int
    threads: tuple[tuple[Instruction, ...], ...]
    root: int | None = None
    scratch: int = 0
    aliasable: bool = True

    @property
    def instructions(self) -> tuple[Instruction, ...]:
        """The only thread's instructions."""
        if len(self.threads) != 1:
            raise ValueError(f"{self.name}: rank {self.rank} has {len(self.threads)} threads; expected 1")
        return self.threads[0]

    def encode(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """The only thread as two tables, the engines' binary form.

        instructions [m, 7]: kind, peer, register, first operand, number of targets, number of sources, multicast;
        operands [k, 4]: space, index, label, count; an instruction's targets come first, then its sources.
        """
        heads: list[tuple[int, ...]] = []
        operands: list[tuple[int, ...]] = []
        for i in self.instructions:
            heads.append((i.kind, i.peer, i.register, len(operands), len(i.targets), len(i.sources), i.multicast))
            for o in (*i.targets, *i.sources):
                if o.rank >= 0:
                    raise ValueError(f"{self.name}: rank {self.rank} names rank {o.rank}'s memory; no engine here can")
                operands.append(o[:4])
        return (
            np.array(heads, dtype=np.int32).reshape(-1, 7),
            np.array(operands, dtype=np.int32).reshape(-1, 4),
        )

    def digest(self) -> str:
        """Twelve hexadecimal digits that identify the rank's instructions, independent of names and sizes."""
        state = sha256(repr((self.collective, self.rank, self.ranks, self.chunks, self.root)).encode())
        for thread in self.threads:
            for i in thread:
                state.update(repr(tuple(i)).encode())
        return state.hexdigest()[:12]

    def chunks_from(self) -> dict[int, int]:
        """Chunks received per peer, for comparison with the engine's byte counters."""
        total: dict[int, int] = {}
        for thread in self.threads:
            held: dict[int, int] = {}
            for i in thread:
                if i.kind is Kind.WAIT and i.register >= 0:
                    held[i.register] = i.peer
                for o in i.sources:
                    if o.space is Space.MESSAGE and o.index in held:
                        peer = held.pop(o.index)
                        total[peer] = total.get(peer, 0) + o.count
        return total

    def __str__(self) -> str:
        return format_program(self)


def format_program(program: Program) -> str:
    """One line an instruction: `reduce output[2] slot0 <- output[2] message0`, `signal 3 slot0`."""
    p = program
    root = "" if p.root is None else f" root {p.root}"
    lines = [f"program {p.name} {p.collective} rank {p.rank} of {p.ranks} chunks {p.chunks}{root}"]
    for number, thread in enumerate(p.threads):
        if len(p.threads) > 1:
            lines.append(f"thread {number}")
        lines.extend(f"  {format_instruction(i)}" for i in thread)
    return "\n".join(lines)


def format_instruction(i: Instruction) -> str:
    """Returns the instruction as one line of text."""
    after = "".join(f" after {t}.{s}" for t, s in i.after)
    if i.kind in (Kind.COPY, Kind.REDUCE):
        left, right = (" ".join(map(_place, side)) for side in (i.targets, i.sources))
        return f"{i.kind.name.lower()} {left} <- {right}{after}"
    name = {Kind.SIGNAL: f" slot{i.register}", Kind.WAIT: f" message{i.register}"}.get(i.kind, "")
    channel = f" channel {i.channel}" if i.channel else ""
    return f"{i.kind.name.lower()} {i.peer}{name if i.register >= 0 else ''}{channel}{after}"


def _place(o: Operand) -> str:
    if o.space in (Space.SLOT, Space.MESSAGE):
        return f"{o.space.name.lower()}{o.index}"
    span = f"{o.index}" if o.count == 1 else f"{o.index}:{o.index + o.count}"
    owner = "" if o.rank < 0 else f"@{o.rank}"
    return f"{o.space.name.lower()}{owner}[{span}]"
