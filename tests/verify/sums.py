"""How the programs of a schedule add up, by running them on the names of their contributions."""

from __future__ import annotations

from collections import defaultdict, deque
from typing import Any

from ringtree.ir.program import Kind, Program, Space
from ringtree.ir.schedule import Schedule

Tree = Any
"""A rank, or the list of what one instruction added up, in its order."""


def formed(programs: tuple[Program, ...], s: Schedule) -> list[Tree]:
    """How each chunk of each rank's output came to be, by running the programs."""
    spaces: list[dict[tuple[Space, int], Tree]] = [{} for _ in programs]
    for p, space in zip(programs, spaces, strict=True):
        held = s.promise.precondition(p.rank, s.ranks, s.chunks, s.root or 0)
        space.update({(Space.INPUT, k): p.rank for k in range(len(held))})
    lanes: dict[tuple[int, int], deque[list[Tree]]] = defaultdict(deque)
    registers: list[dict[tuple[Space, int], list[Tree]]] = [{} for _ in programs]
    done = [0] * s.ranks

    def step(r: int) -> bool:
        if done[r] == len(programs[r].instructions):
            return False
        i = programs[r].instructions[done[r]]
        if i.kind is Kind.WAIT:
            if not lanes[i.peer, r]:
                return False
            registers[r][Space.MESSAGE, i.register] = lanes[i.peer, r].popleft()
        elif i.kind is Kind.SIGNAL:
            lanes[r, i.peer].append(registers[r][Space.SLOT, i.register])
        elif i.kind is not Kind.RELEASE:
            read = [
                registers[r][o.space, o.index]
                if o.space is Space.MESSAGE
                else [spaces[r][o.space, o.index + k] for k in range(o.count)]
                for o in i.sources
            ]
            values = [list(parts) if len(parts) > 1 else parts[0] for parts in zip(*read, strict=True)]
            for t in i.targets:
                if t.space is Space.SLOT:
                    registers[r][t.space, t.index] = values
                else:
                    spaces[r].update({(t.space, t.index + k): value for k, value in enumerate(values)})
        done[r] += 1
        return True

    def steps(r: int) -> bool:
        before = done[r]
        while step(r):
            pass
        return done[r] > before

    while any([steps(r) for r in range(s.ranks)]):
        pass
    where = [(r, len(s.promise.postcondition(r, s.ranks, s.chunks, s.root or 0))) for r in range(s.ranks)]
    return [spaces[r][Space.OUTPUT, k] for r, many in where for k in range(many)]


def flat(tree: Tree) -> list[int]:
    return [x for part in tree for x in flat(part)] if isinstance(tree, list) else [tree]


def balanced_tree(low: int, high: int) -> Tree:
    """The tree over ranks low … high-1, as it is defined."""
    if high - low == 1:
        return low
    left = 1
    while 2 * left < high - low:
        left *= 2
    return [balanced_tree(low, low + left), balanced_tree(low + left, high)]
