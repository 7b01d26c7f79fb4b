"""Messages that may land: whose bytes their sender may write where the receiver would copy them.

A receiver that only copies a message into its output saves that copy where ranks reach each other's arrays. The sender
may write there once the receiver has begun the call and is done with the place: it must have had a message from the
receiver that was sent after the receiver's last use of those chunks, and nobody else may still read them there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ringtree.ir.program import Instruction, Kind, Operand, Program, Space

ARRAYS = (Space.INPUT, Space.OUTPUT)


class Landing(NamedTuple):
    """A message that may land: the instruction which makes its bytes, by its number in its sender's program, the
    receiver, and the chunks of its output."""

    instruction: int
    peer: int
    target: Operand


def landings(programs: Sequence[Program], rank: int) -> tuple[Landing, ...]:
    """The messages of a rank that may land. A slot counts only if all of its messages may, and only signals name it.
    Cost: O(instructions) for each message. Programs of several threads have none."""
    if any(len(p.threads) != 1 for p in programs):
        return ()
    mine = programs[rank].instructions
    found = []
    for at, i in enumerate(mine):
        if i.kind not in (Kind.COPY, Kind.REDUCE) or not any(o.space is Space.SLOT for o in i.targets):
            continue
        signals = _signals(mine, at)
        targets = [_target(programs, rank, at, signal) for signal in signals]
        if targets and all(targets):
            found += [Landing(at, mine[s].peer, t) for s, t in zip(signals, targets, strict=True) if t]
    return tuple(found)


def _signals(code: Sequence[Instruction], at: int) -> list[int]:
    """The signals of the slot that an instruction writes; none where something else names the slot, too."""
    register = next(o.index for o in code[at].targets if o.space is Space.SLOT)
    found, follows = list[int](), True
    for number, i in enumerate(code[at + 1 :], at + 1):
        if any(o.space is Space.SLOT and o.index == register for o in i.sources):
            return []
        if any(o.space is Space.SLOT and o.index == register for o in i.targets):
            break
        if i.kind is Kind.SIGNAL and i.register == register:
            if not follows:
                return []
            found.append(number)
        elif i.kind is not Kind.RELEASE:
            follows = False
    return found


def _target(programs: Sequence[Program], rank: int, at: int, signal: int) -> Operand | None:
    """The place where the message of a signal may land, whose bytes an instruction makes; None where it may not."""
    mine, peer = programs[rank].instructions, programs[rank].instructions[signal].peer
    theirs = programs[peer].instructions
    wait = _nth(theirs, Kind.WAIT, rank, _count(mine[: signal + 1], Kind.SIGNAL, peer))
    heard = _count(mine[:at], Kind.WAIT, peer)
    if wait is None or not heard:
        return None
    sent = _nth(theirs, Kind.SIGNAL, rank, heard)
    copy = _only_copy(theirs, wait)
    if sent is None or copy is None or sent > wait:
        return None
    target = theirs[copy].targets[0]
    if any(_touches(i, target) for i in theirs[sent + 1 : copy]):
        return None
    return target if _unread(theirs[: sent + 1], target, rank, _read(mine[: at + 1], peer)) else None


def _read(code: Sequence[Instruction], peer: int) -> int:
    """The messages of a peer that a program is done with, those that its last instruction reads among them: it reads
    each element before it writes it."""
    waited, registers, last = 0, dict[int, int](), 0
    for i in code:
        if i.kind is Kind.WAIT and i.peer == peer:
            waited += 1
            registers[i.register] = waited
        elif i.kind is Kind.RELEASE and i.peer == peer:
            last += 1
    held = [registers[o.index] for o in code[-1].sources if o.space is Space.MESSAGE and o.index in registers]
    return max(last, min(last + len(held), waited))


def _count(code: Sequence[Instruction], kind: Kind, peer: int) -> int:
    return sum(i.kind is kind and i.peer == peer for i in code)


def _nth(code: Sequence[Instruction], kind: Kind, peer: int, nth: int) -> int | None:
    """The number of the `nth` instruction of a kind with a peer, from 1."""
    for number, i in enumerate(code):
        if i.kind is kind and i.peer == peer:
            nth -= 1
            if nth == 0:
                return number
    return None


def _only_copy(code: Sequence[Instruction], wait: int) -> int | None:
    """The copy into the output that alone reads the message which an instruction waits for."""
    register, found = code[wait].register, None
    for number, i in enumerate(code[wait + 1 :], wait + 1):
        if i.kind is Kind.WAIT and i.register == register:
            break
        if any(o.space is Space.MESSAGE and o.index == register for o in i.sources):
            plain = i.kind is Kind.COPY and len(i.targets) == 1 and i.targets[0].space is Space.OUTPUT
            if found is not None or not plain:
                return None
            found = number
    return found


def _same_place(o: Operand, target: Operand) -> bool:
    """Whether two operands may be the same memory: input and output may be one array, position by position."""
    return o.space in ARRAYS and o.label < target.label + target.count and target.label < o.label + o.count


def _touches(i: Instruction, target: Operand) -> bool:
    return any(_same_place(o, target) for o in (*i.targets, *i.sources))


def _unread(code: Sequence[Instruction], target: Operand, reader: int, read: int) -> bool:
    """Whether no message of this program is read at the target any more: those that may have been sent from there went
    to `reader` alone, which has read that many messages."""
    sent = 0
    lying: dict[int, bool] = {}
    for i in code:
        if i.kind in (Kind.COPY, Kind.REDUCE):
            for slot in (o for o in i.targets if o.space is Space.SLOT):
                lying[slot.index] = _touches(i, target)
        elif i.kind is Kind.SIGNAL:
            sent += i.peer == reader
            if lying.get(i.register) and (i.peer != reader or sent > read):
                return False
    return True
