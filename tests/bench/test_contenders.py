"""Algorithms that are measured against each other: all that calls choose from, and then predicted as they took."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ringtree.bench import contenders
from ringtree.bench.predicted import shared_memory
from ringtree.plan import shortlist
from ringtree.price import BUILT_IN


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_all_that_calls_choose_from_are_measured(ranks: int) -> None:
    rows = contenders.rows(ranks, 4 << 10)
    reduces = [row for row in rows if row[0].collective == "reduce"]
    assert [row[0].nbytes for row in reduces] == [8, 512, 4 << 10]
    assert all({c.algorithm for c in row} == set(shortlist("reduce", ranks)) for row in reduces)
    for row in rows:
        assert {c.ranks for c in row} == {ranks} and row[0].collective != "barrier"
        assert len({(c.collective, c.nbytes) for c in row}) == 1, "only calls that are alternatives have turns together"


def test_one_rank_has_nothing_to_choose() -> None:
    assert contenders.rows(1) == []


def test_measured_calls_are_predicted_as_they_took() -> None:
    cases = [case for row in contenders.rows(2, 512) for case in row]
    took_s = {case: 1e-6 * (k + 1) for k, case in enumerate(cases)}
    parameters = contenders.corrected(BUILT_IN, took_s)
    memory = replace(shared_memory(2), parameters=parameters)
    for case, seconds in took_s.items():
        assert contenders.predicted_s(case, memory) == pytest.approx(seconds)
