"""Reductions of many at once, as balanced trees: the same collective, by the same messages."""

from __future__ import annotations

import pytest

from ringtree.algorithms import build
from ringtree.ir.collective import COLLECTIVES
from ringtree.ir.lower import lower
from ringtree.ir.schedule import Block, Buffer, Schedule, Shift, Transfers
from ringtree.plan import at_once
from ringtree.transform import balance, pipeline
from ringtree.verify import is_balanced, prove, prove_programs
from tests import oracle

AT_ONCE = [(name, c) for c in COLLECTIVES for name in at_once(c)]


@pytest.mark.parametrize(("name", "collective"), AT_ONCE)
def test_what_adds_up_at_once_adds_up_in_a_balanced_tree(name: str, collective: str) -> None:
    for n in (*range(1, 9), 11, 16):
        for root in sorted({0, n // 2, n - 1}) if COLLECTIVES[collective].rooted else [None]:
            plain = build(name, collective, n, root)
            balanced = balance(plain)
            prove(balanced)
            prove_programs(lower(balanced))
            assert oracle.wrong(balanced) is None
            assert is_balanced(balanced), (n, root)
            assert is_balanced(plain) == (balanced is plain), "it is changed where it has to be"
            assert messages(balanced) == messages(plain)


def messages(schedule: Schedule) -> list[tuple[int, int, int]]:
    """Source, target and chunks of all transfers between ranks."""
    rows = schedule.expand()
    sent = zip(rows.source.tolist(), rows.target.tolist(), rows.count.tolist(), strict=True)
    return sorted(m for m in sent if m[0] != m[1])


@pytest.mark.parametrize(
    ("name", "collective"), [("ring", "all_reduce"), ("binomial", "reduce"), ("pat", "all_gather")]
)
def test_what_joins_two_at_a_time_stays(name: str, collective: str) -> None:
    schedule = build(name, collective, 8)
    assert balance(schedule) is schedule


def test_a_block_that_repeats_is_written_out() -> None:
    pushed = Transfers.of([1, 2, 3], 0, 0, reduce=True)
    schedule = Schedule("pushed", "reduce", 4, 3, (Block(pushed, 3, Shift.chunk(1)),), 0)
    prove(balance(schedule))
    assert is_balanced(balance(schedule)) and not is_balanced(schedule)
    piped = pipeline(build("flat", "reduce", 5, 2), 3)
    prove(balance(piped))
    assert is_balanced(balance(piped))


def test_scratch_that_is_in_use_is_left_alone() -> None:
    """Rank 0 keeps its input in scratch, adds the others to it, and has it as its result."""
    keep = Transfers.of(0, 0, source_buffer=Buffer.INPUT, target_buffer=Buffer.SCRATCH)
    add = Transfers.of([1, 2, 3], 0, reduce=True, round=1, source_buffer=Buffer.INPUT, target_buffer=Buffer.SCRATCH)
    out = Transfers.of(0, 0, round=2, source_buffer=Buffer.SCRATCH, target_buffer=Buffer.OUTPUT)
    schedule = Schedule("kept", "reduce", 4, 1, (Block(Transfers.concatenate([keep, add, out])),), 0, scratch=1)
    prove(schedule)
    balanced = balance(schedule)
    prove(balanced)
    assert oracle.wrong(balanced) is None
    assert is_balanced(balanced)
    assert balanced.scratch == 3


def test_ranges_that_overlap_stay() -> None:
    rows = (Transfers.of([1, 2], 0, 0, count=2, reduce=True), Transfers.of(3, 0, [0, 1], reduce=True))
    schedule = Schedule("overlapping", "reduce", 4, 2, (Block(Transfers.concatenate(rows)),), 0)
    prove(schedule)
    assert balance(schedule) is schedule
