"""Messages that may land: which a program has, and what forbids it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ringtree.algorithms import build, serving
from ringtree.ir.landing import landings
from ringtree.ir.lower import lower
from ringtree.ir.program import Instruction, Kind, Operand, Program, Space


@pytest.mark.parametrize("ranks", [2, 3, 4, 8])
def test_a_two_shot_result_lands_at_all_other_ranks(ranks: int) -> None:
    programs = lower(build("two_shot", "all_reduce", ranks))
    for rank in range(ranks):
        found = landings(programs, rank)
        assert {(landing.peer, landing.target.index) for landing in found} == {
            (peer, rank) for peer in range(ranks) if peer != rank
        }


@pytest.mark.parametrize("algorithm", serving("all_reduce"))
def test_a_target_is_output_and_its_receiver_copies_it(algorithm: str) -> None:
    programs = lower(build(algorithm, "all_reduce", 4))
    for rank in range(4):
        for landing in landings(programs, rank):
            assert landing.target.space is Space.OUTPUT
            copies = [
                i
                for i in programs[landing.peer].instructions
                if i.kind is Kind.COPY and i.targets[0] == landing.target and i.sources[0].space is Space.MESSAGE
            ]
            assert copies, f"{algorithm}, rank {rank}: {landing}"


def _changed(program: Program, *instructions: Instruction) -> Program:
    return replace(program, threads=(instructions,))


def test_nothing_lands_before_the_receiver_was_heard() -> None:
    """An all_gather's first messages may find their receivers in an earlier call."""
    programs = lower(build("two_shot", "all_gather", 3))
    assert not any(landings(programs, rank) for rank in range(3))


def test_nothing_lands_where_the_receiver_still_uses_the_place() -> None:
    first, second = lower(build("two_shot", "all_reduce", 2))
    assert landings((first, second), 0)
    at = next(n for n, i in enumerate(second.instructions) if i.kind is Kind.SIGNAL) + 1
    reads = Instruction(Kind.COPY, (Operand(Space.SCRATCH, 0, 0),), (Operand(Space.INPUT, 0, 0),))
    late = _changed(second, *second.instructions[:at], reads, *second.instructions[at:])
    assert not landings((first, late), 0)


def test_nothing_lands_where_somebody_else_may_still_read() -> None:
    """Rank 1 sends what lies at the place to rank 2 as well."""
    programs = list(lower(build("two_shot", "all_reduce", 3)))
    code = programs[1].instructions
    at = next(n for n, i in enumerate(code) if i.kind is Kind.SIGNAL and i.peer == 0)
    twice = replace_peer(code[at], 2)
    programs[1] = _changed(programs[1], *code[:at], twice, *code[at:])
    assert not any(landing.peer == 1 for landing in landings(programs, 0))


def replace_peer(i: Instruction, peer: int) -> Instruction:
    return i._replace(peer=peer)


def test_a_slot_that_is_read_again_does_not_land() -> None:
    first, second = lower(build("two_shot", "all_reduce", 2))
    code = first.instructions
    slot = next(o for i in code if i.kind is Kind.REDUCE for o in i.targets if o.space is Space.SLOT)
    keeps = Instruction(Kind.COPY, (Operand(Space.SCRATCH, 0, slot.label),), (slot,))
    assert not landings((_changed(first, *code, keeps), second), 0)
