"""Counting without expanding agrees with expanding; composition joins only what fits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringtree.ir.schedule import Block, Schedule, Shift, Transfers


@st.composite
def repeated_blocks(draw):
    n, chunks = draw(st.integers(1, 6)), draw(st.integers(1, 7))
    m = draw(st.integers(1, 8))
    column = lambda high: draw(st.lists(st.integers(0, high - 1), min_size=m, max_size=m))  # noqa: E731
    rows = Transfers.of(column(n), column(n), column(chunks), to=column(chunks), round=sorted(column(3)))
    drift = st.integers(-3, 3)
    shift = Shift(draw(drift), draw(drift), draw(drift), draw(drift))
    return Schedule("any", "all_reduce", n, chunks, (Block(rows, draw(st.integers(1, 9)), shift),))


@given(repeated_blocks())
def test_counts_are_those_of_the_expanded_rows(schedule):
    rows = schedule.expand()
    assert len(rows) == schedule.transfers
    remote = rows.take(rows.source != rows.target)
    for side, counted in (("source", schedule.chunks_sent()), ("target", schedule.chunks_received())):
        assert np.array_equal(np.bincount(getattr(remote, side), remote.count, schedule.ranks), counted)
    assert np.all(np.diff(rows.round) >= 0)
    assert len(rows) == 0 or rows.round[-1] < schedule.rounds


def test_expanding_moves_ranks_and_chunks_modulo():
    rows = Transfers.of([0, 1], [1, 2], [2, 0])
    schedule = Schedule("x", "all_reduce", 3, 3, (Block(rows, 3, Shift(source=1, target_chunk=-1)),))
    plain = schedule.expand()
    assert plain.source.tolist() == [0, 1, 1, 2, 2, 0]
    assert plain.target.tolist() == [1, 2] * 3
    assert plain.source_chunk.tolist() == [2, 0] * 3
    assert plain.target_chunk.tolist() == [2, 0, 1, 2, 0, 1]
    assert plain.round.tolist() == [0, 0, 1, 1, 2, 2]


def test_equality_is_of_transfers_not_of_their_compression():
    rows = Transfers.of([0], [1], [0])
    short = Schedule("a", "all_reduce", 2, 4, (Block(rows, 4, Shift.chunk(1)),))
    long = Schedule("b", "all_reduce", 2, 4, (Block(short.expand()),))
    assert short == long
    assert short != Schedule("a", "all_reduce", 2, 4, (Block(rows, 3, Shift.chunk(1)),))


def test_schedules_larger_than_memory_are_not_expanded():
    endless = Schedule("endless", "all_reduce", 2, 4, (Block(Transfers.of([0], [1], [0]), 2**31, Shift.chunk(1)),))
    assert endless.transfers == 2**31
    with pytest.raises(ValueError, match="2,147,483,648 transfers are too many"):
        endless.expand()


@pytest.mark.parametrize(
    "columns, refused",
    [
        (([0, 1], [1, 2**32]), "target 4294967296 in row 1"),
        ((0, 2.5), "target 2.5 in row 0"),
        ((0, [1.0, float("nan")]), "target nan in row 1"),
        ((0, 1, 2**70), "chunk 1180591620717411303424 in row 0"),
        ((None, 1), "source None in row 0"),
    ],
)
def test_columns_keep_their_numbers(columns, refused):
    with pytest.raises(ValueError, match=f"{refused}; expected a whole number from -2"):
        Transfers.of(*columns)


def test_whole_numbers_may_be_of_any_type():
    rows = Transfers.of([0.0, 1.0], np.array([1, 2], np.uint64), True)
    assert (rows.source.tolist(), rows.target.tolist(), rows.source_chunk.tolist()) == ([0, 1], [1, 2], [1, 1])


def test_then_refuses_schedules_that_do_not_fit():
    a = Schedule("a", "reduce_scatter", 4, 4, ())
    with pytest.raises(ValueError, match=r"same ranks, chunks and switches"):
        a.then(Schedule("b", "all_gather", 4, 8, ()), "all_reduce")
