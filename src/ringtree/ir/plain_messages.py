"""Programs whose messages are plain: one instruction makes the bytes of each, signals name them, and receivers read.

Such a program needs no signal of its own where each piece of a message says that it has come.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from ringtree.ir.program import Instruction, Kind, Program, Space


class PlainMessages(NamedTuple):
    """The most messages from one rank to another, the most chunks of a message, and the most operands of a rank's
    moves, each chunk and each message that is sent counted by itself."""

    messages: int
    chunks: int
    operands: int


def plain_messages(programs: Sequence[Program]) -> PlainMessages | None:
    """None where a message is not plain, and for programs of several threads. Cost: O(instructions)."""
    messages = chunks = operands = 0
    for program in programs:
        if len(program.threads) != 1 or not _plain(program.instructions):
            return None
        sent = Counter(i.peer for i in program.instructions if i.kind is Kind.SIGNAL)
        messages = max(messages, *sent.values()) if sent else messages
        slots = (o.count for i in program.instructions for o in i.targets if o.space is Space.SLOT)
        chunks = max(chunks, *slots, 0)
        operands = max(operands, _operands(program.instructions))
    return PlainMessages(messages, chunks, operands)


def _plain(code: Sequence[Instruction]) -> bool:
    written, held = set[int](), set[int]()
    for i in code:
        if i.kind is Kind.SIGNAL and i.register not in written:
            return False
        if i.kind is Kind.WAIT:
            if i.register < 0:
                return False
            held.add(i.register)
        if any(o.rank >= 0 for o in i.targets + i.sources) or any(o.space is Space.SLOT for o in i.sources):
            return False
        if any(o.space is Space.MESSAGE and o.index not in held for o in i.sources):
            return False
        written |= {o.index for o in i.targets if o.space is Space.SLOT}
    return True


def _operands(code: Sequence[Instruction]) -> int:
    """Operands of moves, a slot once for each of its signals, for each chunk."""
    total, chunks = 0, dict[int, int]()
    for i in code:
        if i.kind is Kind.SIGNAL:
            total += chunks.get(i.register, 0)
        for o in i.targets + i.sources:
            total += o.count
            if o.space is Space.SLOT:
                chunks[o.index] = o.count
    return total
