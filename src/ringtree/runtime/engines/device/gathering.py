"""Brings together what a device does at once: signals of several peers, each of which takes a trip to memory that
others read, and as long for all as for one. What peers wait for comes before what they do not."""

from __future__ import annotations

from collections import Counter
from itertools import count

from ringtree.ir.program import Kind, Space

Row = list[int]
FEW = 8
"""Messages to a peer for which every lane has room while the peer gives none back; so many slots, or one a rank."""


def gathered(code: list[Row], operands: list[Row], ranks: int) -> tuple[list[Row], list[Row], list[int]]:
    """The instructions in another order, to the same effect, their operands, and the number of each in `code`: copies
    of the input into slots come before the signals of others, signals before releases. Each signal and each release is
    among the same waits as before.

    Programs with more messages than there is room for keep their order: a signal might wait for a release."""
    to = Counter(row[1] for row in code if row[0] == Kind.SIGNAL)
    slots = sum(_slot(row, operands) is not None for row in code)
    order = list[int]()
    if max(to.values(), default=0) > FEW or slots > max(FEW, ranks):
        return code, operands, list(range(len(code)))
    code, operands = _renamed(code, operands)
    for at, row in enumerate(code):
        passed = {Kind.SIGNAL: Kind.RELEASE, Kind.COPY: Kind.SIGNAL}.get(Kind(row[0]))
        place = at
        if row[0] == Kind.SIGNAL or _stages_input(row, operands):
            while place and code[order[place - 1]][0] == passed:
                place -= 1
        order.insert(place, at)
    return [code[at] for at in order], operands, order


def _slot(row: Row, operands: list[Row]) -> Row | None:
    """The target of an instruction that is a slot."""
    if row[0] not in (Kind.COPY, Kind.REDUCE):
        return None
    return next((o for o in operands[row[3] : row[3] + row[4]] if o[0] == Space.SLOT), None)


def _stages_input(row: Row, operands: list[Row]) -> bool:
    """Whether an instruction copies input into a slot, and nowhere else."""
    alone = row[0] == Kind.COPY and row[4] == 1 and _slot(row, operands) is not None
    return alone and operands[row[3] + 1][0] == Space.INPUT


def _renamed(code: list[Row], operands: list[Row]) -> tuple[list[Row], list[Row]]:
    """The same program, in which each content of a slot has a register of its own."""
    code, operands = [list(row) for row in code], [list(o) for o in operands]
    now, fresh = dict[int, int](), count()
    for row in code:
        kind, _, register, first, targets, sources, *_ = row
        if kind == Kind.SIGNAL and register >= 0:
            row[2] = now[register]
        elif kind in (Kind.COPY, Kind.REDUCE):
            for o in operands[first + targets : first + targets + sources]:
                o[1] = now[o[1]] if o[0] == Space.SLOT else o[1]
            if target := _slot(row, operands):
                now[target[1]] = target[1] = next(fresh)
    return code, operands
