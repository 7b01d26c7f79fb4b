"""Deadlocks and the fewest slots."""

from __future__ import annotations

import re

import pytest

from ringtree.ir.program import Instruction, Program
from ringtree.verify import ProofError, prove_programs
from ringtree.verify.progress import play
from ringtree.verify.wiring import wire
from tests.verify.by_hand import copy, program, reduce, release, signal, wait


def slots(*programs: Program, limit: int | None = None) -> int:
    return play(wire(programs), limit).slots


def send(peer: int, register: int = 0) -> list[Instruction]:
    return [copy(f"slot{register}", "input0"), signal(peer, register)]


def take(peer: int, register: int = 0) -> list[Instruction]:
    return [wait(peer, register), copy("output0", f"message{register}"), release(peer)]


def test_no_slot_where_none_is_taken() -> None:
    assert slots(program(0, [copy("output0", "input0"), signal(1)]), program(1, [wait(0)])) == 0


def test_both_send_first() -> None:
    a, b = ([*send(1 - r), *take(1 - r)] for r in range(2))
    assert slots(*(program(r, c, collective="all_reduce") for r, c in enumerate((a, b)))) == 1


def both_send_twice_first() -> list[Program]:
    return [
        program(r, [*send(1 - r), *send(1 - r), *take(1 - r), *take(1 - r)], collective="all_reduce") for r in range(2)
    ]


def test_deadlock_with_one_slot_but_not_with_two() -> None:
    assert slots(*both_send_twice_first()) == 2
    assert slots(*both_send_twice_first(), limit=2) == 2
    with pytest.raises(ProofError) as caught:
        prove_programs(both_send_twice_first(), slots=1)
    assert str(caught.value) == (
        "hand all_reduce over 2 ranks: deadlock with 1 slot: rank 0 step 2 (copy slot0 <- input[0]) waits for a slot "
        "that rank 1 has not released; rank 1 step 2 (copy slot0 <- input[0]) waits for a slot that rank 0 has not "
        "released"
    )


@pytest.mark.parametrize("many", [1, 3, 7])
def test_as_many_slots_as_are_sent_before_anything_is_taken(many: int) -> None:
    programs = [program(r, [*send(1 - r) * many, *take(1 - r) * many], collective="all_reduce") for r in range(2)]
    assert slots(*programs) == many
    with pytest.raises(ProofError, match=f"deadlock with {many - 1} slot"):
        slots(*programs, limit=many - 1)


def test_slots_are_the_senders_for_every_receiver() -> None:
    """Rank 0 fills two slots, for rank 1 and rank 2; rank 1 gives its back only after rank 2 has got its own."""
    first = program(0, [*send(1), *send(2)], ranks=3)
    second = program(1, [wait(0, 0), wait(2), release(0)], ranks=3)
    third = program(2, [*take(0), signal(1)], ranks=3)
    assert slots(first, second, third) == 2
    with pytest.raises(
        ProofError, match=r"deadlock with 1 slot: rank 0 .* waits for a slot that rank 1 has not released"
    ):
        slots(first, second, third, limit=1)


def test_slots_are_reused_in_ring_order() -> None:
    """The second slot is free again at once, the first is not: with two slots the third message waits for the first."""
    first = program(0, [*send(1), *send(2), *send(2), signal(1)], ranks=3)
    second = program(1, [wait(0, 0), wait(0), release(0)], ranks=3)
    third = program(2, [*take(0), *take(0)], ranks=3)
    assert slots(first, second, third) == 3


def test_a_slot_is_not_reused_while_its_owner_still_needs_it() -> None:
    """One slot would be enough for the messages, but slot 0 is sent to rank 2 after slot 1 was filled."""
    first = program(0, [*send(1), copy("slot1", "input0"), signal(1, 1), signal(2, 0)], ranks=3)
    second, third = program(1, [*take(0), *take(0)], ranks=3), program(2, take(0), ranks=3)
    assert slots(first, second, third) == 2
    with pytest.raises(ProofError, match="a slot that a later step of its own still needs"):
        slots(first, second, third, limit=1)
    looks_back = program(0, [*send(1), copy("slot1", "input0"), signal(1, 1), copy("output0", "slot0")])
    assert slots(looks_back, program(1, [*take(0), *take(0)])) == 2


def test_lanes_of_threads_have_slots_of_their_own() -> None:
    """Two threads that send twice each: two slots a lane; as one pool it would take four."""
    sender = [[copy("slot0", "input0"), signal(1, 0, c), copy("slot0", "input0"), signal(1, 0, c)] for c in range(2)]
    receiver = [wait(0, k, c) for c in (1, 0) for k in (0, 1)] + [release(0, c) for c in (0, 0, 1, 1)]
    assert slots(program(0, *sender), program(1, receiver)) == 2


def test_waiting_in_a_circle_is_a_deadlock_with_any_number_of_slots() -> None:
    programs = [program(r, [wait((r - 1) % 3), signal((r + 1) % 3)], ranks=3) for r in range(3)]
    with pytest.raises(ProofError) as caught:
        slots(*programs)
    assert re.search(
        r"deadlock with any number of slots: rank 0 step 0 \(wait 2\) waits for a message from rank 2; "
        r"rank 2 step 0 \(wait 1\) waits for a message from rank 1; rank 1 step 0 \(wait 0\) waits for a message from "
        r"rank 0$",
        str(caught.value),
    )


def test_a_rank_with_its_slot_is_not_stuck_for_a_slot() -> None:
    """Rank 0 waits for its slot and gets it; then everybody waits for a message that comes later."""
    first, second = [*send(1), *send(1), wait(1), signal(1)], [*take(0), *take(0), wait(0), signal(0)]
    with pytest.raises(ProofError, match="deadlock with any number of slots: rank 0 step 4"):
        slots(program(0, first), program(1, second), limit=1)


def test_the_cycle_is_named_without_ranks_that_wait_for_it() -> None:
    idle = program(0, [wait(1)], ranks=3)
    second = program(1, [wait(2), signal(2), signal(0)], ranks=3)
    with pytest.raises(ProofError) as caught:
        slots(idle, second, program(2, [wait(1), signal(1)], ranks=3))
    assert "rank 0" not in str(caught.value).split("deadlock")[1]


def test_dependences_between_threads() -> None:
    waits = [wait(1, after=((1, 0),))]
    assert slots(program(0, waits, [copy("output0", "input0")]), program(1, [signal(0)])) == 0
    a, b = [signal(1, -1)._replace(after=((1, 0),))], [signal(1, -1, 1)._replace(after=((0, 0),))]
    with pytest.raises(
        ProofError, match=r"rank 0 thread 0 step 0 \(.*\) waits for rank 0 thread 1 step 0; rank 0 thread 1"
    ):
        slots(program(0, a, b), program(1, [wait(0), wait(0, channel=1)], []))


def test_after_an_own_later_step() -> None:
    code = [copy("output0", "input0", after=((0, 1),)), copy("output0", "input0", after=((0, 0),))]
    with pytest.raises(ProofError, match="waits for rank 0 step 1"):
        slots(program(0, code), program(1, []))


def test_fused_ring_needs_two() -> None:
    """Each rank sends, then receives, reduces and sends on in one step: the slot is taken while a message is held."""
    programs = []
    for k in range(3):
        right, left = (k + 1) % 3, (k - 1) % 3
        code = [*send(right), wait(left, 0), reduce("output0 slot0", "input0 message0"), release(left)]
        code += [signal(right, 0), wait(left, 0), release(left)]
        programs.append(program(k, code, ranks=3, collective="all_reduce"))
    assert slots(*programs) == 2
