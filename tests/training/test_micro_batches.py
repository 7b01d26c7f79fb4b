"""The numbers of micro-batches into which rows can be divided."""

from __future__ import annotations

import pytest

from ringtree.training.core.micro_batches import divisors, fewest


@pytest.mark.parametrize("rows", [1, 2, 7, 12, 36, 96, 1536])
def test_divisors_are_all_that_divide_the_rows(rows: int) -> None:
    assert divisors(rows) == [n for n in range(1, rows + 1) if rows % n == 0]


@pytest.mark.parametrize(("rows", "stages", "expected"), [(32, 3, 4), (16, 4, 4), (16, 1, 1), (4, 8, 4), (7, 2, 7)])
def test_the_fewest_keep_all_stages_at_work(rows: int, stages: int, expected: int) -> None:
    assert fewest(rows, stages) == expected
