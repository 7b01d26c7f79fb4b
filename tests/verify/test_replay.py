"""The memory that programs leave, judged without a schedule."""

from __future__ import annotations

import pytest

from ringtree.ir.program import Instruction, Operand, Program, Space
from ringtree.verify import ProgramProof, ProofError, prove_programs
from tests.verify.by_hand import copy, program, put, reduce, release, signal, wait

SEND = [copy("slot0", "input0"), signal(1, 0), copy("output0", "input0")]
TAKE = [wait(0, 0), copy("output0", "message0"), release(0)]


def exchange(rank: int, *code: Instruction) -> list[Instruction]:
    """Sends its input, takes the other's as message0, does `code`."""
    peer = 1 - rank
    return [copy("slot0", "input0"), signal(peer, 0), wait(peer, 0), *code, release(peer)]


def all_reduce(*code: Instruction) -> ProgramProof:
    """Rank 1 is right, rank 0 does `code`."""
    right = reduce("output0", "input0 message0")
    return prove_programs(
        [program(r, exchange(r, *(c)), collective="all_reduce") for r, c in enumerate((code, [right]))]
    )


def refusal(*programs: Program, even: bool = False, alike: bool = False) -> str:
    with pytest.raises(ProofError) as caught:
        prove_programs(programs, even=even, alike=alike)
    return str(caught.value)


def test_a_proof_counts() -> None:
    proof = prove_programs([program(1, TAKE), program(0, SEND)])
    assert (proof.ranks, proof.threads, proof.instructions, proof.messages, proof.slots) == (2, 2, 6, 1, 1)
    assert str(proof) == (
        "hand broadcast over 2 ranks: 6 instructions in 2 threads and 1 messages proved; slots needed: 1"
    )
    assert all_reduce(reduce("output0", "message0 input0")).slots == 1


def test_missing() -> None:
    with pytest.raises(ProofError) as caught:
        all_reduce(copy("output0", "message0"))
    assert str(caught.value) == (
        "hand all_reduce over 2 ranks: rank 0 chunk 0: expected the sum of ranks 0, 1 of chunk 0; there was rank 1's "
        "chunk 0 (missing rank 0), last written by rank 0 step 3 (copy output[0] <- message0)"
    )
    assert (caught.value.rank, caught.value.chunk) == (0, 0)


def test_twice() -> None:
    with pytest.raises(
        ProofError, match=r"there was a spoiled chunk: rank 0 step 3 \(reduce .*\) added .* a rank twice"
    ):
        all_reduce(reduce("output0", "message0 input0 message0"))


def test_where_it_was_spoiled_first_is_named() -> None:
    with pytest.raises(
        ProofError, match=r"there was a spoiled chunk: rank 0 step 3 \(reduce output\[0\] <- message0 message0\) added"
    ):
        all_reduce(reduce("output0", "message0 message0"), reduce("output0", "input0 output0"))


def test_nothing() -> None:
    assert "rank 1 chunk 0: expected rank 0's chunk 0; there was nothing, which no step wrote" in refusal(
        program(0, SEND), program(1, [TAKE[0], TAKE[2]])
    )
    with pytest.raises(ProofError, match=r"rank 0 step 3 .* added"):
        all_reduce(reduce("output0", "message0 output0"))


def test_the_last_writer_may_be_the_first_step() -> None:
    idle = [copy("output0", "input0"), *exchange(0)]
    right = exchange(1, reduce("output0", "input0 message0"))
    message = refusal(program(0, idle, collective="all_reduce"), program(1, right, collective="all_reduce"))
    assert "(missing rank 1), last written by rank 0 step 0 (copy output[0] <- input[0])" in message


@pytest.mark.parametrize("owner", [0, 1])
def test_the_last_writer_may_be_a_peer(owner: int) -> None:
    writer = 1 - owner
    writes = [wait(owner, 0), reduce("output0", "input0 message0"), release(owner)]
    writes += [put("output0", owner, "input0"), signal(owner)]
    codes = {owner: [copy("slot0", "input0"), signal(writer, 0), wait(writer)], writer: writes}
    message = refusal(*(program(rank, codes[rank], collective="all_reduce") for rank in (0, 1)))
    assert f"last written by rank {writer} step 3 (copy output@{owner}[0] <- input[0])" in message


def test_a_message_is_the_content_of_the_slot_at_the_signal() -> None:
    sender = [copy("slot0", "input0"), signal(1, 0), copy("slot0", "input1", 1), signal(1, 0)]
    own = [copy("output0", "input0"), copy("output1", "input1", 1)]
    taker = [
        wait(0, 0),
        wait(0, 1),
        copy("output1", "message1", 1),
        copy("output0", "message0"),
        release(0),
        release(0),
    ]
    assert prove_programs([program(0, sender + own, chunks=2), program(1, taker, chunks=2)]).slots == 2


def test_lanes_are_first_in_first_out() -> None:
    sender = [copy("slot0", "input1", 1), signal(1, 0), copy("slot0", "input0"), signal(1, 0)]
    own = [copy("output0", "input0"), copy("output1", "input1", 1)]
    taker = [
        wait(0, 0),
        copy("output0", "message0"),
        release(0),
        wait(0, 0),
        copy("output1", "message0", 1),
        release(0),
    ]
    message = refusal(program(0, sender + own, chunks=2), program(1, taker, chunks=2))
    assert "rank 1 step 1 (copy output[0] <- message0): it takes chunk 1 in place of chunk 0" in message
    message = refusal(program(0, sender + own, chunks=2), program(1, taker, chunks=2), even=True)
    assert (
        "rank 1 chunk 0: expected rank 0's chunk 0; there was rank 0's chunk 1, last written by rank 1 step 1"
        in message
    )


def test_channels_do_not_mix() -> None:
    sender = [copy("slot0", "input1", 1), signal(1, 0, channel=1), copy("slot0", "input0"), signal(1, 0)]
    own = [copy("output0", "input0"), copy("output1", "input1", 1)]
    taker = [wait(0, 0), copy("output0", "message0"), release(0)]
    taker += [wait(0, 0, channel=1), copy("output1", "message0", 1), release(0, channel=1)]
    assert prove_programs([program(0, sender + own, chunks=2), program(1, taker, chunks=2)]).slots == 2


def test_in_place() -> None:
    """Programs for input and output in one memory: they write their input and read their output."""
    first = [copy("slot0", "input0"), signal(1, 0), wait(1, 0), reduce("input0", "input0 message0"), release(1)]
    other = [copy("slot0", "output0"), signal(0, 0), wait(0, 0), reduce("output0", "input0 message0"), release(0)]
    programs = [program(r, c, collective="all_reduce") for r, c in enumerate((first, other))]
    prove_programs(programs, in_place=True)
    assert "rank 0 step 3 (reduce input[0] <- input[0] message0): writes the input" in refusal(*programs)
    both = program(0, [*first, reduce("output0", "output0 input0")], collective="all_reduce")
    with pytest.raises(ProofError, match="a rank twice"):
        prove_programs([both, programs[1]], in_place=True)


def test_in_place_windows_meet_by_position() -> None:
    """In an all_gather the input is block `rank` of the output: nothing is left to copy."""
    code = [[copy("slot0", "input0", r), signal(1 - r, 0), wait(1 - r, 0)] for r in range(2)]
    for r in range(2):
        code[r] += [copy(f"output{1 - r}", "message0", 1 - r), release(1 - r)]
    programs = [program(r, c, collective="all_gather", chunks=2) for r, c in enumerate(code)]
    prove_programs(programs, in_place=True)
    assert "rank 0 chunk 0: expected rank 0's chunk 0; there was nothing" in refusal(*programs)


def swap(aliasable: bool) -> list[Program]:
    """all_to_all of two ranks that stores its peer's block before it sends its own."""
    programs = []
    for r in range(2):
        peer = 1 - r
        keep = [copy("scratch0", f"input{peer}", peer)]
        code = [copy("slot0", f"input{peer}", peer), signal(peer, 0), wait(peer, 0)]
        code += [copy(f"output{peer}", "message0", peer), release(peer), copy(f"output{r}", f"input{r}", r)]
        late = [copy("scratch0", f"input{peer}", peer)]
        more = {"chunks": 2, "scratch": 1, "aliasable": aliasable}
        programs.append(program(r, [*keep, *code, *late], collective="all_to_all", **more))
    return programs


def test_reading_the_input_after_the_output_was_written_there() -> None:
    prove_programs(swap(aliasable=False), alike=True)
    assert (
        "rank 1 step 7 (copy scratch[0] <- input[0]): it reads chunk 0 of the input after the output was written"
        in (refusal(*swap(aliasable=True), alike=True))
    )


def test_labels_of_blocks_are_sizes() -> None:
    """In an all_to_all a block moves to another rank's position; blocks are alike, chunks of a block are not."""

    def transposed(k: int, label: int) -> list[Program]:
        programs = []
        for r in range(2):
            span = 2 * (1 - r)
            out = (Operand(Space.SLOT, 0, span, 2),), (Operand(Space.INPUT, span, span, 2),)
            back = (Operand(Space.OUTPUT, span, label, 2),), (Operand(Space.MESSAGE, 0, label, 2),)
            own = (Operand(Space.OUTPUT, 2 * r, 2 * r, 2),), (Operand(Space.INPUT, 2 * r, 2 * r, 2),)
            code = [copy("slot0", "input0")._replace(targets=out[0], sources=out[1]), signal(1 - r, 0), wait(1 - r, 0)]
            code += [copy("slot0", "input0")._replace(targets=x[0], sources=x[1]) for x in (back, own)]
            programs.append(program(r, [*code, release(1 - r)], collective="all_to_all", chunks=2 * k))
        return programs

    prove_programs(transposed(2, 0), alike=True)
    assert "it takes chunk 2 in place of chunk 1" in refusal(*transposed(2, 1), alike=True)
    expected = "it takes rank 1's chunk 0 in place of rank 0's chunk 0, whose size may be another; expected scratch"
    assert expected in refusal(*transposed(2, 0))
