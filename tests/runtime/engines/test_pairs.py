"""The all-pairs generator: every pair that a legal row has is met, in far fewer rows."""

from __future__ import annotations

from itertools import combinations, product

from tests.runtime.engines.pairs import pairwise

COLUMNS = {"a": [1, 2, 3, 4, 5], "b": list("xyz"), "c": [True, False], "d": [10, 20, 30, 40]}


def test_every_pair_of_values_meets() -> None:
    rows = pairwise(COLUMNS)
    for one, two in combinations(COLUMNS, 2):
        met = {(r[one], r[two]) for r in rows}
        assert met == set(product(COLUMNS[one], COLUMNS[two]))
    assert len(rows) <= 30  # of 120; the least is 20


def test_pairs_that_no_legal_row_has_are_left_out() -> None:
    rows = pairwise(COLUMNS, lambda r: not (r["a"] == 1 and r["b"] == "x"))
    assert not any(r["a"] == 1 and r["b"] == "x" for r in rows)
    assert {r["d"] for r in rows if r["a"] == 1} == {10, 20, 30, 40}


def test_the_rows_are_the_same_every_time() -> None:
    assert pairwise(COLUMNS) == pairwise(COLUMNS)
