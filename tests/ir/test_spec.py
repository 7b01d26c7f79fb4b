"""Every rule of a legal schedule is enforced, with the row and what was expected in the message."""

import re

import pytest

from ringtree.ir.schedule import Block, Buffer, Schedule, Shift, Transfers
from ringtree.ir.spec import ScheduleError, check

ROW = Transfers.of([0], [1], [0])


def schedule(rows=ROW, collective="all_reduce", ranks=2, chunks=2, root=None, times=1, shift=Shift(), **more):  # noqa: B008
    return Schedule("s", collective, ranks, chunks, (Block(rows, times, shift),), root, **more)


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
        "reads what an earlier row of its round writes",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    wrong, said = REFUSED[name]
    with pytest.raises(ScheduleError, match=re.escape(said)):
        check(wrong)


def test_legal():
    check(schedule())
    check(schedule(Transfers.of([0], [1], [0]), times=5, shift=Shift.chunk(1)))
