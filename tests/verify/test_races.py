"""Races between threads of a rank, between a reader and a later remote writer, and between input and output."""

from __future__ import annotations

from typing import Any

import pytest

from ringtree.ir.program import Instruction, Program
from ringtree.verify import ProofError, prove_programs
from tests.verify.by_hand import copy, get, program, put, reduce, release, signal, wait

OWN = copy("output0", "input0")


def refusal(*programs: Program, slots: int | None = None) -> str:
    with pytest.raises(ProofError) as caught:
        prove_programs(programs, slots=slots)
    return str(caught.value)


def two_channels(after: tuple[tuple[int, int], ...]) -> list[Program]:
    """Rank 0 and 1 exchange; in rank 0 one thread stores its input, another adds what comes from rank 1."""
    adds = [wait(1, 0), reduce("output0", "output0 message0", after=after), release(1)]
    first = program(0, [OWN, copy("slot0", "input0"), signal(1, 0)], adds, collective="all_reduce")
    second = [copy("slot0", "input0"), signal(0, 0), wait(0, 0), reduce("output0", "input0 message0"), release(0)]
    return [first, program(1, second, collective="all_reduce")]


def test_two_threads_of_a_rank() -> None:
    prove_programs(two_channels(after=((0, 0),)))
    assert refusal(*two_channels(after=())) == (
        "hand all_reduce over 2 ranks: race: rank 0 thread 0 step 0 (copy output[0] <- input[0]) and rank 0 thread 1 "
        "step 1 (reduce output[0] <- output[0] message0) both touch rank 0's output[0], at least one writes, and "
        "nothing orders them"
    )


def test_a_later_dependence_covers_earlier_steps() -> None:
    prove_programs(two_channels(after=((0, 2),)))


def test_reading_is_no_race() -> None:
    threads = [[copy("output0", "input0")], [copy("scratch0", "input0")]]
    prove_programs([program(0, *threads, ranks=1, scratch=1)])
    assert "both touch rank 0's scratch[0]" in refusal(
        program(0, [copy("scratch0", "input0"), OWN], [copy("scratch0", "input0")], ranks=1, scratch=1)
    )


def test_a_reader_and_an_unordered_writer() -> None:
    reads, writes = [copy("scratch0", "output0")], [OWN]
    assert "race" in refusal(program(0, reads, writes, ranks=1, scratch=1))
    reads = [copy("scratch0", "output0")]
    writes = [copy("output0", "input0", after=((0, 0),))]
    prove_programs([program(0, reads, writes, ranks=1, scratch=1)])


def through_a_peer(back: int) -> list[Program]:
    """Thread 0 stores and signals rank 1, which signals thread `back` of rank 0: that orders the two threads."""
    first = [OWN, signal(1)]
    second = [copy("scratch0", "output0")]
    (second if back else first).insert(0 if back else len(first), wait(1))
    taker = [wait(0), signal(0), wait(0, 0, 2), copy("output0", "message0"), release(0, 2)]
    sender = [copy("slot0", "input0"), signal(1, 0, 2)]
    return [program(0, first, second, sender, scratch=1), program(1, taker)]


def test_order_can_come_from_a_peer() -> None:
    prove_programs(through_a_peer(1))
    assert "race" in refusal(*through_a_peer(0))


def get_then_put(acknowledged: bool) -> list[Program]:
    """Rank 1 reads rank 0's output, which rank 0 overwrites afterwards: only rank 1's signal makes that safe."""
    first: list[Instruction] = [OWN, signal(1), *([wait(1)] if acknowledged else []), OWN]
    second: list[Instruction] = [wait(0), get("output0", "output0", 0), *([signal(0)] if acknowledged else [])]
    return [program(0, first), program(1, second)]


def test_a_reader_and_a_later_remote_writer() -> None:
    proof = prove_programs(get_then_put(acknowledged=True))
    assert proof.early is None and proof.late is None
    assert "race: " in refusal(*get_then_put(acknowledged=False))
    assert "copy output[0] <- output@0[0]" in refusal(*get_then_put(acknowledged=False))


def test_the_same_program_one_sided_by_the_writer() -> None:
    first = [OWN, put("output0", 1, "input0"), signal(1)]
    proof = prove_programs([program(0, first), program(1, [wait(0)])])
    assert proof.early is not None and "rank 0 step 1" in proof.early and "before rank 1 has begun" in proof.early
    assert proof.late is None


def test_races_that_a_one_sided_program_leaves_open() -> None:
    proof = prove_programs([program(0, [OWN, signal(1)]), program(1, [wait(0), get("output0", "output0", 0)])])
    assert proof.early is None
    assert proof.late is not None and "rank 1 step 1" in proof.late and "after rank 0 has ended" in proof.late


def test_one_thread_that_knows_is_enough() -> None:
    """Rank 0 ends when both its threads have; one of them waits until rank 1 has read."""
    owner = program(0, [OWN, signal(1)], [wait(1)])
    proof = prove_programs([owner, program(1, [wait(0), get("output0", "output0", 0), signal(0)], [])])
    assert (proof.early, proof.late) == (None, None)


def test_only_the_chunks_of_an_operand_are_touched() -> None:
    """Rank 1's input is the second chunk of the memory that input and output may share; the first one comes to it."""
    takes = [wait(0, 0), copy("output0", "message0"), release(0)]
    sends = [copy("slot0", "input0", 1), signal(0, 0), copy("output1", "input0", 1)]
    gathers = [copy("output0", "input0"), copy("slot0", "input0"), signal(1, 0), wait(1, 0)]
    gathers += [copy("output1", "message0", 1), release(1)]
    more: dict[str, Any] = {"collective": "all_gather", "chunks": 2, "aliasable": True}
    prove_programs([program(0, gathers, **more), program(1, takes, sends, **more)])


def reused(extra: int) -> list[Program]:
    """Rank 0's thread 0 stores to the output when a slot is free again, which rank 1 released after thread 1 had
    signalled that its own store is done."""
    first = [copy("slot0", "input0"), signal(1, 0)] * (2 + extra) + [OWN]
    second = [copy("output0", "input0"), signal(1, -1, 1)]
    taker = [wait(0, -1, 1)] + [wait(0, 0), copy("output0", "message0"), release(0)] * (2 + extra)
    return [program(0, first, second), program(1, taker, [])]


def test_slot_reuse_orders_only_where_the_number_of_slots_is_given() -> None:
    prove_programs(reused(0), slots=1)
    assert "race" in refusal(*reused(0), slots=2)
    prove_programs(reused(1), slots=2)
    assert "race" in refusal(*reused(0))


@pytest.mark.parametrize("signalled", [1, 2])
def test_a_slot_is_free_when_all_receivers_gave_it_back(signalled: int) -> None:
    """The slot goes to ranks 1 and 2; one of them, whichever, hears of the other thread's store before it releases."""
    first = [copy("slot0", "input0"), signal(1, 0), signal(2, 0, 2), copy("slot0", "input0"), OWN, signal(1, 0)]
    second = [copy("output0", "input0"), signal(signalled, -1, 1)]
    takers = []
    for r in (1, 2):
        lane = {1: 0, 2: 2}[r]
        code = [wait(0, 0, lane), copy("output0", "message0"), *([wait(0, -1, 1)] if r == signalled else [])]
        code += [release(0, lane), *([wait(0, 0), release(0)] if r == 1 else [])]
        takers.append(program(r, code, [], ranks=3))
    programs = [program(0, first, second, ranks=3), *takers]
    prove_programs(programs, slots=1)
    assert "race" in refusal(*programs)


@pytest.mark.parametrize("aliasable", [False, True])
def test_input_and_output_in_one_memory(aliasable: bool) -> None:
    """One thread sends the input, another overwrites the output."""
    sender = [copy("slot0", "input0"), signal(1, 0)]
    adds = [wait(1, 0), reduce("output0", "scratch0 message0"), release(1)]
    keep = [copy("scratch0", "input0")]
    first = program(0, sender, keep + adds, collective="all_reduce", scratch=1, aliasable=aliasable)
    second = [copy("slot0", "input0"), signal(0, 0), wait(0, 0), reduce("output0", "input0 message0"), release(0)]
    programs = [first, program(1, second, collective="all_reduce")]
    if aliasable:
        assert "(copy slot0 <- input[0])" in refusal(*programs)
    else:
        prove_programs(programs)
