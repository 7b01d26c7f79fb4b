"""Programs that cannot be wired are refused before they are played."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ringtree.ir.program import Instruction
from ringtree.verify import ProofError, prove_programs
from ringtree.verify.wiring import wire
from tests.verify.by_hand import copy, get, operand, program, put, reduce, release, signal, wait


def at(i: Instruction, *, source: int = 0, target: int = 0, count: int = 1) -> Instruction:
    """The instruction, with `count` chunks from these on."""
    sources = tuple(o._replace(index=source, count=count) for o in i.sources)
    return i._replace(sources=sources, targets=tuple(o._replace(index=target, count=count) for o in i.targets))


SEND = [copy("slot0", "input0"), signal(1, 0), copy("output0", "input0")]
TAKE = [wait(0, 0), copy("output0", "message0"), release(0)]


def test_a_broadcast_by_hand() -> None:
    w = wire([program(0, SEND), program(1, TAKE)])
    assert [(x.source, x.target, x.sent) for x in w.lanes] == [(0, 1, [0])]
    assert w.uses == [1] and w.pools == [[0], []] and w.positions == [[(0, 0)]]
    assert not (w.threaded or w.one_sided)


def test_a_slot_is_taken_when_it_is_first_written_and_again_after_it_was_signalled() -> None:
    code = [
        copy("slot0", "input0"),
        copy("slot0", "input0"),
        signal(1, 0),
        signal(1, 0),
        copy("slot0", "input0"),
        signal(1, 0),
    ]
    w = wire([program(0, code), program(1, [wait(0, 0), wait(0, 0), wait(0, 0), release(0), release(0), release(0)])])
    assert w.lanes[0].sent == [0, 0, 1] and w.uses == [2, 1]


def test_slots_of_several_threads_are_counted_by_lane() -> None:
    sender = program(0, [copy("slot0", "input0"), signal(1, 0)], [copy("slot0", "input0"), signal(1, 0, channel=1)])
    receiver = program(1, [wait(0, 0), release(0), wait(0, 0, 1), release(0, 1)], [])
    w = wire([sender, receiver])
    assert w.pools == [[0], [1]] and [x.channel for x in w.lanes] == [0, 1]


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (SEND, [*TAKE, wait(0, 0)], "rank 0 to rank 1: 1 signals and 2 waits; expected as many"),
        (SEND, [], "rank 0 to rank 1: 1 signals and 0 waits"),
        (SEND, [wait(0)], "signal 0 is a message; its wait expects a bare signal"),
        ([signal(1)], TAKE, "signal 0 is a bare signal; its wait expects a message"),
        (SEND, TAKE[:2], "1 messages and 0 releases; expected every message to be released"),
        (SEND, [*TAKE, release(0)], "rank 1 step 3 (release 0): holds no message from rank 0"),
        (SEND, [release(0), *TAKE], "rank 1 step 0 (release 0): holds no message from rank 0"),
        (SEND, [wait(0, 0), release(0), TAKE[1]], "step 2 (copy output[0] <- message0): message0 was released before"),
        (SEND, [copy("output0", "message0")], "message0 was never waited for"),
        ([signal(1, 0)], TAKE, "rank 0 step 0 (signal 1 slot0): slot0 was never written"),
        ([copy("output0", "slot1")], [], "slot1 was never written"),
        ([copy("output1", "input0")], [], "rank 0 has 1 chunks of output"),
        ([copy("scratch0", "input0")], [], "rank 0 has 0 chunks of scratch"),
        ([at(copy("output0", "input0"), source=-1)], [], "rank 0 has 1 chunks of input"),
        ([at(copy("output0", "input0"), target=-1)], [], "rank 0 has 1 chunks of output"),
        ([at(copy("slot0", "input0"), count=2)], [], "rank 0 has 1 chunks of input"),
        ([at(copy("output0", "slot0"), count=2)], [], "slot0 was never written"),
        ([copy("slot0", "input0"), at(copy("output0", "slot0"), count=2)], [], "rank 0 has 1 chunks of output"),
        ([], [at(get("output0", "input0", 0), source=-1)], "rank 0 has 1 chunks of input"),
        ([], [at(get("output0", "input0", 0), count=2)], "rank 0 has 1 chunks of input"),
        ([], [at(get("output0", "input0", 0), count=0)], "rank 0 has 1 chunks of input"),
        ([], [copy("output0", "input0")], "rank 1 has 0 chunks of input"),
        ([copy("input0", "output0")], [], "rank 0 step 0 (copy input[0] <- output[0]): writes the input; expected"),
        ([copy("message0", "input0")], [], "writes a message or a peer's slot"),
        ([put("slot0", 1, "input0")], [], "writes a message or a peer's slot"),
        ([get("output0", "message0", 1)], [], "slots and messages are one's own"),
        ([get("output0", "output0", 2)], [], "no rank 2; expected 0..1"),
        ([signal(2)], [], "no rank 2; expected 0..1"),
        ([signal(-1)], [], "no rank -1; expected 0..1"),
        ([copy("output0", "input0", after=((0, 3),))], [], "comes after 0.3, which does not exist"),
        ([copy("output0", "input0", after=((1, 0),))], [], "comes after 1.0, which does not exist"),
        ([reduce("", "input0")], [], "expected targets, and one source to copy or several to reduce"),
        ([reduce("output0", "")], [], "expected targets, and one source to copy or several to reduce"),
        (
            [copy("output0", "input0")._replace(sources=(operand("input0"),) * 2)],
            [],
            "expected targets, and one source to copy or several to reduce",
        ),
        (
            [copy("output0", "input0")._replace(sources=(operand("input0")._replace(count=0),))],
            [],
            "differ in their number of chunks",
        ),
    ],
)
def test_refused(first: Sequence[Instruction], second: Sequence[Instruction], expected: str) -> None:
    with pytest.raises(ProofError) as caught:
        wire([program(0, first), program(1, second)])
    assert expected in str(caught.value)


@pytest.mark.parametrize("wrong", [get("output0", "output0", 3), signal(3)])
def test_ranks_are_counted(wrong: Instruction) -> None:
    with pytest.raises(ProofError, match=r"no rank 3; expected 0\.\.2"):
        wire([program(0, [wrong], ranks=3), program(1, [], ranks=3), program(2, [], ranks=3)])


def test_a_lane_has_one_thread_at_each_end() -> None:
    sender = program(0, SEND[:2], SEND[:2])
    with pytest.raises(ProofError, match="another thread also signals on the lane from rank 0 to rank 1"):
        wire([sender, program(1, TAKE)])
    receiver = program(1, TAKE, TAKE)
    with pytest.raises(ProofError, match="another thread also waits on the lane from rank 0 to rank 1"):
        wire([program(0, SEND + SEND), receiver])


def test_one_program_for_each_rank() -> None:
    with pytest.raises(ProofError, match=r"programs of ranks \[0\]; expected one of each of 0..1"):
        prove_programs([program(0, SEND)])
    with pytest.raises(ProofError, match="no programs"):
        prove_programs([])
    with pytest.raises(ProofError, match="rank 1 is of"):
        prove_programs([program(0, SEND), program(1, TAKE, chunks=2)])
