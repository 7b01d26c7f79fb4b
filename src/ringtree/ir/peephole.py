"""Small improvements of one rank's instruction list that preserve its meaning."""

from __future__ import annotations

from collections.abc import Sequence

from ringtree.ir.placement import Placement
from ringtree.ir.program import Instruction, Kind, Operand, Space


def fuse_slot(code: list[Instruction], operand: Operand) -> int:
    """Makes `operand` ready in a slot; returns the slot's register.

    The instruction that wrote it last also writes the slot, when nothing took a slot since (so slots are still taken
    in the order they are signalled); otherwise a copy is appended. Saves reading the range again.
    """
    for at in range(len(code) - 1, -1, -1):
        i = code[at]
        if i.kind not in (Kind.COPY, Kind.REDUCE):
            continue
        if i.targets == (operand,):
            register = _free_register(code, at)
            slot = Operand(Space.SLOT, register, operand.label, operand.count)
            code[at] = i._replace(targets=(operand, slot))
            return register
        if any(t.space is Space.SLOT or _overlap(t, operand) for t in i.targets):
            break
    register = _free_register(code, len(code))
    slot = Operand(Space.SLOT, register, operand.label, operand.count)
    code.append(Instruction(Kind.COPY, (slot,), (operand,)))
    return register


def _free_register(code: Sequence[Instruction], since: int) -> int:
    """The first slot register that no instruction from `since` on still signals."""
    used = {i.register for i in code[since:] if i.kind is Kind.SIGNAL}
    return next(k for k in range(len(used) + 1) if k not in used)


def drop_dead_scratch(code: Sequence[Instruction]) -> list[Instruction]:
    """The instructions without writes to scratch that no later instruction reads."""
    kept: list[Instruction] = []
    live: set[int] = set()
    for i in reversed(code):
        if not i.targets:
            kept.append(i)
            continue
        targets = tuple(t for t in i.targets if t.space is not Space.SCRATCH or not live.isdisjoint(_chunks(t)))
        if not targets:
            continue
        for t in targets:
            if t.space is Space.SCRATCH:
                live.difference_update(_chunks(t))
        for s in i.sources:
            if s.space is Space.SCRATCH:
                live.update(_chunks(s))
        kept.append(i if len(targets) == len(i.targets) else i._replace(targets=targets))
    kept.reverse()
    return kept


def is_aliasable(code: Sequence[Instruction], placement: Placement) -> bool:
    """Whether input and output may be the same memory: no instruction reads a position of the input after an earlier
    one wrote that position of the output. (Within one instruction, reading and writing one element is fine.)"""
    written: set[int] = set()
    for i in code:
        for s in i.sources:
            if s.space is Space.INPUT and any(placement.precondition.start + k in written for k in _chunks(s)):
                return False
        for t in i.targets:
            if t.space is Space.OUTPUT:
                written.update(placement.postcondition.start + k for k in _chunks(t))
    return True


def _chunks(o: Operand) -> range:
    return range(o.index, o.index + o.count)


def _overlap(a: Operand, b: Operand) -> bool:
    return a.space is b.space and a.index < b.index + b.count and b.index < a.index + a.count
