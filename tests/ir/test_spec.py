"""Every rule of a legal schedule is enforced, with the row and what was expected in the message."""

import re
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringtree.ir.schedule import Block, Buffer, Schedule, Shift, Transfers
from ringtree.ir.spec import ScheduleError, check

ROW = Transfers.of([0], [1], [0])


def schedule(rows=ROW, collective="all_reduce", ranks=2, chunks=2, root=None, times=1, shift=Shift(), **more):  # noqa: B008
    return Schedule("s", collective, ranks, chunks, (Block(rows, times, shift),), root, **more)


def by_scratch(target, to):
    """Rank 0's data and rank 1's scratch, into scratch."""
    buffers = {"source_buffer": [Buffer.DATA, Buffer.SCRATCH], "target_buffer": Buffer.SCRATCH}
    return Transfers.of([0, 1], target, [0, 0], to=to, **buffers)


REFUSED = {
    "no ranks": (schedule(ranks=0), "expected at least 1"),
    "no chunks": (schedule(chunks=0), "expects at least 1"),
    "blocks do not divide": (schedule(collective="all_gather", chunks=3), "multiple of its 2 ranks"),
    "root missing": (schedule(collective="broadcast"), "expects a root in 0..1"),
    "root too many": (schedule(root=0), "expects no root"),
    "root out of range": (schedule(collective="reduce", root=2), "expects a root in 0..1"),
    "never": (schedule(times=0), "repeated 0 times"),
    "rounds decrease": (schedule(Transfers.of([0, 0], [1, 1], [0, 1], round=[1, 0])), "rounds never decrease"),
    "no count": (schedule(Transfers.of([0], [1], [0], count=0)), "counts no chunk"),
    "no such rank": (schedule(Transfers.of([0], [2], [0])), "no such rank; expected 0..1"),
    "writes input": (schedule(Transfers.of([0], [1], [0], target_buffer=Buffer.INPUT)), "writes the input"),
    "outside": (schedule(Transfers.of([0], [1], [1], count=2)), "outside its buffer"),
    "no scratch": (schedule(Transfers.of([0], [1], [0], target_buffer=Buffer.SCRATCH)), "outside its buffer"),
    "wraps": (schedule(Transfers.of([0], [1], [0], count=2), times=2, shift=Shift.chunk(1)), "wraps around"),
    "switch data": (schedule(Transfers.of([0], [2], [0]), switches=1), "a switch holds scratch only"),
    "two views": (
        schedule(Transfers.of([0, 0], [1, 1], [0, 0], target_buffer=[Buffer.DATA, Buffer.OUTPUT])),
        "one view or the other",
    ),
    "reads what it wrote": (
        schedule(Transfers.of([0, 1], [1, 1], [0, 0], to=[0, 1])),
        "reads a chunk that an earlier row of its round writes",
    ),
    "reads what it wrote, in a later repetition": (
        schedule(
            by_scratch([1, 1], [1, 2]),
            scratch=3,
            times=2,
            shift=Shift(source_chunk=1),
        ),
        "row 1 (round 1: rank 1 scratch[1] -> rank 1 scratch[2]): reads a chunk that an earlier row",
    ),
    "becomes local": (
        schedule(
            by_scratch([0, 0], [0, 1]),
            scratch=2,
            times=2,
            shift=Shift(source=1),
        ),
        "row 1 (round 1: rank 0 scratch[0] -> rank 0 scratch[1]): reads a chunk that an earlier row",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    wrong, expected = REFUSED[name]
    with pytest.raises(ScheduleError, match=re.escape(expected)):
        check(wrong)


def test_legal():
    check(schedule())
    check(schedule(Transfers.of([0], [1], [0]), times=5, shift=Shift.chunk(1)))


@pytest.mark.parametrize(
    ("chunk", "count", "by", "times", "legal"),
    [(0, 2, 2, 2**31 - 1, True), (1, 2, 2, 2**31 - 1, False), (0, 2, 1, 7, True), (0, 2, 1, 8, False)]
    + [(6, 2, -3, 5, True), (6, 2, -3, 6, False), (0, 8, 8, 5, True)],
)
def test_ranges_may_move_as_far_as_they_do_not_wrap(chunk, count, by, times, legal):
    moving = schedule(Transfers.of([0], [1], [chunk], count=count), chunks=8, times=times, shift=Shift.chunk(by))
    if legal:
        check(moving)
    else:
        with pytest.raises(ScheduleError, match="wraps around"):
            check(moving)


@st.composite
def blocks(draw):
    """A schedule of one block whose rows copy and send within scratch, to and fro."""
    ranks, chunks, times = draw(st.integers(1, 3)), draw(st.integers(1, 4)), draw(st.integers(1, 4))
    rank, shift = st.integers(0, ranks - 1), st.integers(-2, 2)
    row = st.tuples(rank, rank, st.integers(0, chunks - 1), st.integers(0, chunks - 1), st.integers(0, 1))
    source, target, chunk, to, at = np.array(draw(st.lists(row, min_size=1, max_size=6))).T
    count = np.minimum(draw(st.integers(1, 2)), chunks - np.maximum(chunk, to))
    rows = Transfers.of(
        source,
        target,
        chunk,
        to=to,
        count=count,
        round=np.sort(at),
        source_buffer=Buffer.SCRATCH,
        target_buffer=Buffer.SCRATCH,
    )
    return schedule(rows, ranks=ranks, scratch=chunks, times=times, shift=Shift(*(draw(shift) for _ in range(4))))


def late_reads(s):
    """Whether a local row reads what an earlier one of its round wrote, row by row."""
    seen = set()
    for at, source, target, chunk, to, count in zip(
        *(c.tolist() for c in (s.round, s.source, s.target, s.source_chunk, s.target_chunk, s.count)), strict=True
    ):
        if source == target and any((at, source, k) in seen for k in range(chunk, chunk + count)):
            return True
        seen.update((at, target, k) for k in range(to, to + count))
    return False


@given(blocks())
def test_a_block_is_as_legal_as_its_repetitions_written_out(s):
    whole = s.expand()
    if np.any(np.maximum(whole.source_chunk, whole.target_chunk) + whole.count > s.scratch):
        with pytest.raises(ScheduleError, match="wraps around"):
            check(s)
    elif late_reads(whole):
        for block in (s, schedule(whole, ranks=s.ranks, scratch=s.scratch)):
            with pytest.raises(ScheduleError, match="reads a chunk that an earlier row"):
                check(block)
    else:
        check(s)


def test_many_local_copies_are_checked_soon():
    """Each compared with all before it they would be 2^33 comparisons."""
    many = np.arange(1 << 17)
    copies = Transfers.of(many, many, 0, target_buffer=Buffer.SCRATCH)
    began = time.process_time()
    check(schedule(copies, ranks=len(many), scratch=1))
    assert time.process_time() - began < 5
