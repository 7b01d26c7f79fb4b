"""Partial results double in length, lower ranks first, and end in the output without a copy."""

from __future__ import annotations

import pytest

from ringtree.algorithms.exchanges import hillis_steele
from ringtree.ir.lower import lower
from ringtree.ir.program import Kind, Space
from ringtree.ir.schedule import Schedule


@pytest.mark.parametrize("n", [2, 3, 8, 13])
def test_every_rank_but_the_last_shifts_then_doubles(n: int) -> None:
    def distances(schedule: Schedule) -> list[int]:
        return [int((rows.target - rows.source).max()) for rows in schedule.expand().by_round()]

    assert distances(hillis_steele.scan(n)) == [1 << k for k in range((n - 1).bit_length())]
    assert distances(hillis_steele.exscan(n)) == [1, *(1 << k for k in range((n - 2).bit_length()))]


@pytest.mark.parametrize("function", [hillis_steele.scan, hillis_steele.exscan])
def test_received_chunks_are_of_lower_ranks_and_go_first(function) -> None:  # type: ignore[no-untyped-def]
    for p in lower(function(13)):
        sums = [i for i in p.instructions if i.kind is Kind.REDUCE]
        assert all([o.space is Space.MESSAGE for o in i.sources] == [True, False] for i in sums)
        assert len(sums) == (max(p.rank - (function is hillis_steele.exscan), 0)).bit_length()
        assert p.aliasable


def test_the_first_rank_of_an_exclusive_prefix_is_owed_nothing() -> None:
    assert lower(hillis_steele.exscan(5))[0].instructions[-1].kind is Kind.SIGNAL
    assert hillis_steele.exscan(1).blocks == ()
