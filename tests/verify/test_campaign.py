"""Many proofs at once, and their report."""

from __future__ import annotations

import pytest

from ringtree.ir.schedule import Block, Schedule, Transfers
from ringtree.verify import Case, Report, prove_many


def star(ranks: int, missing: int = 0) -> Schedule:
    rows = Transfers.of(0, range(1, ranks - missing))
    return Schedule("star", "broadcast", ranks, 1, (Block(rows),), 0)


def broken() -> Schedule:
    raise KeyError("a bug")


def cases() -> list[Case]:
    right: list[Case] = [(f"star {n}", lambda n=n: star(n)) for n in range(2, 12)]  # type: ignore[misc]
    return [*right, ("star lacking", lambda: star(4, missing=1)), ("star broken", broken)]


@pytest.mark.parametrize("processes", [1, 2])
def test_right_schedules_are_counted_and_wrong_ones_named(processes: int) -> None:
    seen: list[tuple[int, int]] = []
    report = prove_many(cases(), processes=processes, progress=lambda done, of: seen.append((done, of)))
    assert (report.schedules, report.transfers, report.programs) == (10, 55, 65)
    assert (report.slots, report.hungriest) == (1, "star 2")
    assert [f.name for f in report.failures] == ["star lacking", "star broken"]
    assert "rank 3 chunk 0: expected rank 0's chunk 0; there was nothing" in report.failures[0].message
    assert report.failures[1].message == "KeyError: 'a bug'"
    assert seen == [(k, 12) for k in range(1, 13)]


def test_schedules_only() -> None:
    report = prove_many(cases()[:3], programs=False, processes=1)
    assert (report.schedules, report.programs, report.slots) == (3, 0, 0)
    assert str(report) == "proved 3 schedules with 6 transfers, 0 programs with 0 instructions"


@pytest.mark.parametrize("processes", [1, 2])
def test_schedules_with_too_many_transfers_are_left_out_and_named(processes: int) -> None:
    report = prove_many(cases()[:10], processes=processes, most_transfers=8)
    assert (report.schedules, report.transfers) == (8, 36)
    assert [str(x) for x in report.left_out] == [f"star {n}: {n - 1} transfers, more than 8" for n in (10, 11)]
    assert str(report).endswith("; 2 left out") and not report.failures


def test_nothing_to_prove() -> None:
    assert prove_many([]) == Report()
