"""Lowering keeps the meaning of schedules and writes the programs one would write by hand."""

import numpy as np
import pytest

from ringtree.ir.lower import lower, lower_rank
from ringtree.ir.program import Kind, Space
from ringtree.ir.schedule import Block, Buffer, Schedule, Shift, Transfers
from tests.ir.program_replay import replay


def ring_reduce_scatter(n: int) -> Schedule:
    r = np.arange(n)
    rows = Transfers.of(r, (r + 1) % n, (r - 1) % n, reduce=True)
    return Schedule("ring", "reduce_scatter", n, n, (Block(rows, n - 1, Shift.chunk(-1)),))


def ring_all_gather(n: int) -> Schedule:
    r = np.arange(n)
    return Schedule("ring", "all_gather", n, n, (Block(Transfers.of(r, (r + 1) % n, r), n - 1, Shift.chunk(-1)),))


def ring_all_reduce(n: int) -> Schedule:
    return ring_reduce_scatter(n).then(ring_all_gather(n), "all_reduce")


def one_shot(n: int) -> Schedule:
    s, t = (x.ravel() for x in np.meshgrid(np.arange(n), np.arange(n), indexing="ij"))
    rows = Transfers.of(s, t, 0, reduce=s > 0, source_buffer=Buffer.INPUT, target_buffer=Buffer.OUTPUT)
    return Schedule("one_shot", "all_reduce", n, 1, (Block(rows),))


def binomial_gather(n: int) -> Schedule:
    """Sends ranges that mix the rank's own block with received ones."""
    rows, span, step = [], 1, 0
    while span < n:
        rows += [(step, r, r - span, r, min(span, n - r)) for r in range(span, n, 2 * span)]
        span, step = 2 * span, step + 1
    t, source, target, chunk, count = np.array(rows).T
    return Schedule("binomial", "gather", n, n, (Block(Transfers.of(source, target, chunk, count=count, round=t)),), 0)


def halving(n: int) -> Schedule:
    """Reduces ranges that lie partly in the output, partly outside; n a power of two."""
    rows, far, step = [], n // 2, 0
    while far:
        rows += [(step, r, r ^ far, (r ^ far) // far * far, far) for r in range(n)]
        far, step = far // 2, step + 1
    t, source, target, chunk, count = np.array(rows).T
    columns = Transfers.of(source, target, chunk, count=count, round=t, reduce=True)
    return Schedule("halving", "reduce_scatter", n, n, (Block(columns),))


def through_scratch(n: int) -> Schedule:
    """Every rank keeps a copy of its neighbour's chunk in scratch and passes it on."""
    r = np.arange(n)
    first = Block(Transfers.of(r, (r + 1) % n, 0, source_buffer=Buffer.INPUT, target_buffer=Buffer.SCRATCH))
    out = Transfers.of(r, r, 0, to=(r - 1) % n, source_buffer=Buffer.SCRATCH, target_buffer=Buffer.OUTPUT)
    rest = Block(Transfers.of(r, r, 0, to=r, source_buffer=Buffer.INPUT, target_buffer=Buffer.OUTPUT))
    return Schedule("scratch", "all_gather", n, n, (first, Block(out), rest), scratch=1)


@pytest.mark.parametrize("n", [2, 3, 4, 5, 8, 13])
@pytest.mark.parametrize(
    "make", [ring_reduce_scatter, ring_all_gather, ring_all_reduce, one_shot, binomial_gather], ids=lambda f: f.__name__
)
def test_meaning_is_kept(make, n):
    schedule = make(n)
    replay(schedule, lower(schedule))


@pytest.mark.parametrize("n", [2, 4, 8, 16])
def test_ranges_across_the_output_window(n):
    replay(halving(n), lower(halving(n)))


def test_scratch_is_kept():
    replay(through_scratch(2), lower(through_scratch(2)))


def test_one_rank_alone_is_the_same_program():
    schedule = ring_all_reduce(5)
    assert tuple(lower_rank(schedule, r) for r in range(5)) == lower(schedule)


def test_ring_forwards_while_it_reduces():
    assert str(lower(ring_all_reduce(3))[1]).splitlines()[1:] == [
        "  copy slot0 <- input[0]",
        "  signal 2 slot0",
        "  wait 0 message0",
        "  reduce output[2] slot0 <- input[2] message0",
        "  release 0",
        "  signal 2 slot0",
        "  wait 0 message0",
        "  reduce output[1] slot0 <- input[1] message0",
        "  release 0",
        "  signal 2 slot0",
        "  wait 0 message0",
        "  copy output[0] slot0 <- message0",
        "  release 0",
        "  signal 2 slot0",
        "  wait 0 message0",
        "  copy output[2] <- message0",
        "  release 0",
    ]


def test_partial_sums_that_only_travel_on_are_not_stored():
    assert all(p.scratch == 0 for p in lower(ring_reduce_scatter(6)))


def test_one_shot_is_one_reduction_in_rank_order_and_one_slot():
    for p in lower(one_shot(4)):
        sums = [i for i in p.instructions if i.kind is Kind.REDUCE]
        assert len(sums) == 1
        assert [o.space for o in sums[0].sources].index(Space.INPUT) == p.rank
        assert sum(i.kind is Kind.COPY for i in p.instructions) == 1


@pytest.mark.parametrize(
    ("received", "written"),
    [
        ([(0, 2), (2, 2), (0, 2)], [(0, 2, 3), (2, 2, 2)]),
        ([(0, 2), (1, 1), (0, 2)], [(0, 2, 2), (1, 1, 2), (0, 2, 2)]),
        ([(1, 1), (0, 2), (1, 1)], [(1, 1, 2), (0, 2, 2), (1, 1, 2)]),
    ],
)
def test_ranges_of_a_round_that_overlap_are_written_in_listed_order(received, written):
    """Equal ranges are one instruction only where nothing between them writes a part: (chunk, count, sources)."""
    chunk, count = np.array(received).T
    rows = Transfers.of([1, 2, 3], [0, 0, 0], chunk, count=count, reduce=True)
    program = lower_rank(Schedule("overlapping", "all_reduce", 4, 4, (Block(rows),)), 0)
    reduces = [i for i in program.threads[0] if i.kind is Kind.REDUCE]
    assert [(i.targets[0].index, i.targets[0].count, len(i.sources)) for i in reduces] == written


def test_chunks_received_are_the_schedules():
    schedule = ring_all_reduce(7)
    assert [p.chunks_from() for p in lower(schedule)] == [{(r - 1) % 7: 12} for r in range(7)]
    assert schedule.chunks_received().tolist() == [12] * 7


def test_reading_the_input_after_writing_the_output_is_reported():
    r = np.arange(3)
    first = Transfers.of(r, (r + 1) % 3, r, to=r, source_buffer=Buffer.INPUT, target_buffer=Buffer.OUTPUT)
    rows = [first]
    for k in (1, 2):
        rows.append(
            Transfers.of(
                r, (r + k) % 3, (r + k) % 3, to=r, source_buffer=Buffer.INPUT, target_buffer=Buffer.OUTPUT, round=k
            )
        )
    schedule = Schedule("pairwise", "all_to_all", 3, 3, (Block(Transfers.concatenate(rows)),))
    assert not any(p.aliasable for p in lower(schedule))
    assert all(p.aliasable for p in lower(ring_all_reduce(3)))


def test_a_switch_has_no_program():
    schedule = Schedule("sharp", "all_reduce", 2, 1, (), switches=1)
    with pytest.raises(ValueError, match="1 switches"):
        lower(schedule)


def test_encoding_is_the_instruction_list():
    p = lower(ring_all_reduce(4))[2]
    heads, operands = p.encode()
    assert len(heads) == len(p.instructions)
    assert heads[:, 4:6].sum() == len(operands)
    assert heads[0].tolist() == [Kind.COPY, -1, -1, 0, 1, 1, False]
    assert operands[0].tolist() == [Space.SLOT, 0, 1, 1]


def test_digests_of_different_programs_differ():
    assert len({p.digest() for n in (3, 4) for p in lower(ring_all_reduce(n))}) == 7
