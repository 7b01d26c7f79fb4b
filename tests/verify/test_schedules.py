"""prove: accepted schedules, and refused ones with their errors."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from ringtree.ir.schedule import Block, Buffer, Schedule, Shift, Transfers
from ringtree.ir.spec import ScheduleError
from ringtree.verify import ProofError, prove
from tests.verify.by_hand import Row, of, schedule, through_two_buffers

STORE, ADD = False, True
CHAIN: list[Row] = [(2, 1, 0, ADD, 0), (1, 0, 0, ADD, 1)]


def refusal(s: Schedule) -> ProofError:
    with pytest.raises(ProofError) as caught:
        prove(s)
    return caught.value


def ring(n: int) -> Schedule:
    r = np.arange(n)
    first = Block(Transfers.of(r, (r + 1) % n, (r - 1) % n, reduce=True), n - 1, Shift.chunk(-1))
    second = Block(Transfers.of(r, (r + 1) % n, r), n - 1, Shift.chunk(-1))
    return Schedule("ring", "all_reduce", n, n, (first, second))


def test_a_proof_counts() -> None:
    proof = prove(ring(5))
    assert (proof.rounds, proof.transfers, proof.ranks, proof.collective) == (8, 40, 5, "all_reduce")
    assert str(proof) == "ring all_reduce over 5 ranks: proved (8 rounds, 40 transfers)"


@pytest.mark.parametrize("n", [2, 63, 64, 65, 130])
def test_sets_of_ranks_span_words(n: int) -> None:
    prove(ring(n))


def test_nothing_to_do_for_one_rank() -> None:
    prove(Schedule("none", "all_reduce", 1, 1, ()))
    assert "rank 0 chunk 0: expected rank 0's chunk 0; there was nothing, as at the start" in str(
        refusal(of("all_reduce", 1, 2, through_two_buffers(0, 0, 1)))
    )


def test_missing_names_rank_and_last_write() -> None:
    e = refusal(schedule("reduce", 4, 1, [(3, 2, 0, ADD, 0), (2, 0, 0, ADD, 1)], root=0))
    assert str(e) == (
        "hand reduce over 4 ranks: rank 0 chunk 0: expected the sum of ranks 0..3 of chunk 0; there was the sum of "
        "ranks 0, 2, 3 of chunk 0 (missing rank 1), last written in round 1: rank 2 data[0] +> rank 0 data[0]"
    )
    assert (e.rank, e.chunk, e.round) == (0, 0, 1)


def test_counted_twice_names_the_transfer_where_it_happened() -> None:
    e = refusal(schedule("reduce", 3, 1, [*CHAIN, (2, 0, 0, ADD, 2)], root=0))
    assert str(e) == (
        "hand reduce over 3 ranks: rank 0 chunk 0: expected the sum of ranks 0..2 of chunk 0; there was a "
        "spoiled chunk: round 2: rank 2 data[0] +> rank 0 data[0] added rank 2's chunk 0 to the sum of ranks 0..2 of "
        "chunk 0 (counting rank 2 twice)"
    )
    assert e.round == 2


def test_the_first_wrong_transfer_is_named_though_others_carried_it_on() -> None:
    rows: list[Row] = [
        (1, 0, 0, ADD, 0),
        (1, 0, 0, ADD, 1),
        (0, 2, 0, ADD, 2),
        (2, 1, 0, STORE, 3),
        (2, 0, 0, STORE, 3),
    ]
    e = refusal(schedule("all_reduce", 3, 1, rows))
    assert e.round == 1 and "round 1: rank 1 data[0] +> rank 0 data[0]" in str(e)


def test_mixing_chunks() -> None:
    e = refusal(of("reduce", 2, 2, Transfers.of(1, 0, [1, 0], to=[0, 1], reduce=True), root=0))
    assert "added rank 1's chunk 1 to rank 0's chunk 0" in str(e) and "twice" not in str(e)


def test_adding_nothing() -> None:
    into_scratch = Transfers.of(1, 0, 0, reduce=True, target_buffer=Buffer.SCRATCH)
    back = Transfers.of(0, 0, 0, source_buffer=Buffer.SCRATCH, round=1)
    e = refusal(of("reduce", 2, 1, into_scratch, back, root=0, scratch=1))
    assert "added rank 1's chunk 0 to nothing" in str(e)


def test_the_wrong_chunk() -> None:
    e = refusal(of("all_gather", 2, 2, Transfers.of([0, 1], [1, 0], [0, 1], to=[0, 0])))
    assert "rank 0 chunk 0: expected rank 0's chunk 0; there was rank 1's chunk 1" in str(e)
    assert "last written in round 0: rank 1 data[1] -> rank 0 data[0]" in str(e)


def test_never_written() -> None:
    e = refusal(of("all_gather", 3, 3, Transfers.of([0, 1, 2], [1, 2, 0], [0, 1, 2])))
    assert (
        "rank 0 chunk 1: expected rank 1's chunk 1; there was nothing, as at the start: no transfer writes it" in str(e)
    )
    assert (e.rank, e.chunk, e.round) == (0, 1, -1)


def test_adding_where_nothing_is_reduced() -> None:
    e = refusal(of("broadcast", 2, 1, Transfers.of(0, 1, 0, reduce=True), root=0))
    assert "rank 1 chunk 0: expected rank 0's chunk 0; there was a spoiled chunk: round 0" in str(e)


def test_adding_a_chunk_to_itself_where_nothing_is_reduced() -> None:
    e = refusal(schedule("broadcast", 2, 1, [(0, 1, 0, STORE, 0), (0, 1, 0, ADD, 1)], root=0))
    assert "added rank 0's chunk 0 to rank 0's chunk 0 (counting rank 0 twice)" in str(e)


def test_unpromised_chunks_may_be_overwritten() -> None:
    prove(schedule("reduce", 3, 1, [*CHAIN, (0, 1, 0, ADD, 2), (0, 2, 0, ADD, 2)], root=0))


def test_spoiled_and_then_overwritten_is_right() -> None:
    prove(schedule("broadcast", 3, 1, [(0, 1, 0, STORE, 0), (1, 2, 0, ADD, 1), (0, 2, 0, STORE, 2)], root=0))
    rows: list[Row] = [(1, 0, 0, ADD, 0), (1, 0, 0, ADD, 1), (0, 1, 0, STORE, 2)]
    refusal(schedule("all_reduce", 2, 1, rows))


def test_a_round_reads_its_start() -> None:
    prove(schedule("all_reduce", 2, 1, [(0, 1, 0, ADD, 0), (1, 0, 0, ADD, 0)]))
    refusal(schedule("all_reduce", 2, 1, [(0, 1, 0, ADD, 0), (1, 0, 0, ADD, 1)]))


def test_a_round_writes_in_listed_order() -> None:
    first_store = through_two_buffers([0, 1, 2], 0, reduce=[False, True, True])
    late_store = through_two_buffers([1, 2, 0], 0, reduce=[True, True, False])
    prove(of("reduce", 3, 1, first_store, root=0))
    assert "there was rank 0's chunk 0 (missing ranks 1, 2)" in str(refusal(of("reduce", 3, 1, late_store, root=0)))


def test_hearing_twice_is_as_good_in_a_barrier_only() -> None:
    r = np.arange(3)
    rows = [Transfers.of(r, (r + k) % 3, 0, reduce=True, round=k) for k in (1, 2)]
    prove(of("barrier", 3, 1, *rows))
    assert "twice" in str(refusal(of("all_reduce", 3, 1, *rows)))


def test_ranges() -> None:
    prove(of("all_gather", 4, 4, Transfers.of([0, 1, 2, 3], [1, 0, 3, 2], range(4)), PAIRS))
    e = refusal(of("all_gather", 4, 4, Transfers.of([0, 1, 2], [1, 0, 3], range(3)), PAIRS))
    assert (e.rank, e.chunk) == (0, 3)


PAIRS = Transfers.of([0, 1, 2, 3], [2, 3, 0, 1], [0, 0, 2, 2], count=2, round=1)


def test_a_range_is_read_as_one() -> None:
    """Two chunks of scratch swap: the second chunk is read before the first is written."""
    fill = Transfers.of(0, 1, [0, 1], target_buffer=Buffer.SCRATCH)
    swap = Transfers.of(1, 1, [0, 1], to=[1, 0], source_buffer=Buffer.SCRATCH, round=1)
    e = refusal(of("broadcast", 2, 2, fill, swap, root=0, scratch=2))
    assert "rank 1 chunk 0: expected rank 0's chunk 0; there was rank 0's chunk 1" in str(e)


def test_two_buffers_do_not_alias() -> None:
    only_others = through_two_buffers([0, 1], [1, 0], [0, 0], to=[0, 1])
    assert "rank 0 chunk 0: expected rank 0's chunk 0; there was nothing" in str(
        refusal(of("all_gather", 2, 2, only_others))
    )
    prove(of("all_gather", 2, 2, only_others, through_two_buffers([0, 1], [0, 1], 0, to=[0, 1])))


def test_the_input_is_not_written() -> None:
    rows = Transfers.of(0, 1, 0, source_buffer=Buffer.INPUT, target_buffer=Buffer.INPUT)
    with pytest.raises(ScheduleError, match="writes the input"):
        prove(of("all_reduce", 2, 1, rows))


def test_a_window_that_the_rank_does_not_have() -> None:
    with pytest.raises(ScheduleError, match="rank 1 has 0 chunks of output; this needs 1"):
        prove(of("reduce", 2, 1, through_two_buffers([0, 1], [0, 1]), root=0))


def test_switches_reduce_and_multicast() -> None:
    up = Transfers.of([0, 1, 2], 3, 0, target_buffer=Buffer.SCRATCH, reduce=[False, True, True])
    down = Transfers.of(3, [0, 1, 2], 0, source_buffer=Buffer.SCRATCH, round=1)
    prove(of("all_reduce", 3, 1, up, down, scratch=1, switches=1))
    wrong = of("all_reduce", 3, 1, up.take(slice(0, 2)), down, scratch=1, switches=1)
    assert "missing rank 2" in str(refusal(wrong))


def test_an_illegal_schedule_is_not_played() -> None:
    with pytest.raises(ScheduleError, match=re.escape("no such rank; expected 0..1")):
        prove(schedule("all_reduce", 2, 1, [(0, 2, 0, ADD, 0)]))


def all_to_all(n: int, **change: Any) -> Schedule:
    s, t = (x.ravel() for x in np.meshgrid(np.arange(n), np.arange(n), indexing="ij"))
    return of("all_to_all", n, n, through_two_buffers(s, t, change.get("chunk", t), to=s))


def test_all_to_all_transposes() -> None:
    prove(all_to_all(4))
    e = refusal(all_to_all(4, chunk=np.tile([0, 1, 3, 2], 4)))
    assert "rank 2 chunk 0: expected rank 0's chunk 2; there was rank 0's chunk 3" in str(e)


@pytest.mark.slow
def test_a_thousand_ranks() -> None:
    prove(ring(1000))
    prove(all_to_all(300))


def test_a_prefix_has_its_own_contributors_and_no_more() -> None:
    chain = (Transfers.of(0, 1, reduce=True), Transfers.of(1, 2, reduce=True, round=1))
    prove(of("scan", 3, 1, *chain))
    with pytest.raises(ProofError, match=r"rank 1 chunk 0: expected the sum of ranks 0, 1 of chunk 0; there was the "):
        prove(of("scan", 3, 1, *chain, Transfers.of(2, 1, round=2)))
    with pytest.raises(ProofError, match=r"there was the sum of ranks 1, 2 of chunk 0 \(missing rank 0\), last"):
        prove(of("scan", 3, 1, chain[0], Transfers.of(1, 2, reduce=True)))
    with pytest.raises(ProofError, match=r"rank 1 chunk 0: expected rank 0's chunk 0; there was rank 1's chunk 0, as"):
        prove(of("exscan", 3, 1))
