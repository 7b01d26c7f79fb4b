"""The order in which a device runs a program: other than the program's, to the same effect."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import pytest

from ringtree.algorithms import build, serving
from ringtree.ir.lower import lower
from ringtree.ir.program import Kind, Space
from ringtree.runtime.engines.device.gathering import FEW, gathered

CASES = [
    (collective, algorithm, ranks)
    for collective in ("all_reduce", "all_gather", "all_to_all", "reduce_scatter")
    for algorithm in serving(collective)
    for ranks in (2, 4, 7)
]


def tables(collective: str, algorithm: str, ranks: int, rank: int) -> tuple[list[Any], list[Any]]:
    instructions, operands = lower(build(algorithm, collective, ranks))[rank].encode()
    return instructions.tolist(), operands.tolist()


def effect(code: list[Any], operands: list[Any]) -> tuple[Any, ...]:
    """What a program sends to each peer, by which waits it sends it, what it gives back, and what it leaves."""
    memory, held, waited = dict[Any, Any](), dict[int, Any](), Counter[int]()
    sent, given = defaultdict[int, list[Any]](list), Counter[int]()
    for kind, peer, register, first, targets, sources, _ in code:
        if kind == Kind.WAIT:
            waited[peer] += 1
            held[register] = peer, waited[peer]
        elif kind == Kind.SIGNAL:
            sent[peer].append((memory.get((Space.SLOT, register)), dict(waited)))
        elif kind == Kind.RELEASE:
            given[peer] += 1
        else:
            named = operands[first : first + targets + sources]
            found = [
                [memory.get((space, at + k * (space != Space.SLOT)), (space, at, k)) for k in range(count)]
                if space != Space.MESSAGE
                else [(held[at], k) for k in range(count)]
                for space, at, _, count in named[targets:]
            ]
            for space, at, _, count in named[:targets]:
                if space == Space.SLOT:
                    memory[space, at] = (kind, found)
                else:
                    memory.update({(space, at + k): (kind, found, k) for k in range(count)})
    left = {at: made for at, made in memory.items() if at[0] != Space.SLOT}
    return dict(sent), given, left


@pytest.mark.parametrize(("collective", "algorithm", "ranks"), CASES)
def test_another_order_has_the_same_effect(collective: str, algorithm: str, ranks: int) -> None:
    for rank in range(ranks):
        code, operands = tables(collective, algorithm, ranks, rank)
        found, named, order = gathered(code, operands, ranks)
        assert sorted(order) == list(range(len(code)))
        assert effect(found, named) == effect(code, operands)


def test_signals_come_together_and_before_releases() -> None:
    code, operands = tables("all_reduce", "two_shot", 4, 0)
    kinds = "".join("crswg"[row[0]] for row in gathered(code, operands, 4)[0])
    assert "".join("crswg"[row[0]] for row in code) == "cscscswwwrgggssswcgwcgwcg"
    assert kinds == "cccssswwwrsssgggwcgwcgwcg"


def test_a_program_of_many_messages_keeps_its_order() -> None:
    code, operands = tables("all_reduce", "ring", FEW + 2, 0)
    assert gathered(code, operands, FEW + 2)[2] == list(range(len(code)))
