"""The numbers of micro-batches into which rows can be divided."""

from __future__ import annotations

import pytest

from ringtree.training.strategies.layers.micro_batches import divisors, fewest_micro_batches


@pytest.mark.parametrize("rows", [1, 2, 7, 12, 36, 96, 1536])
def test_divisors_are_all_that_divide_the_rows(rows: int) -> None:
    assert divisors(rows) == [n for n in range(1, rows + 1) if rows % n == 0]


@pytest.mark.parametrize(
    ("rows", "ranks", "schedule", "expected"),
    [
        (32, 3, "1f1b", 4),
        (16, 4, "1f1b", 4),
        (16, 1, "gpipe", 1),
        (4, 8, "gpipe", 4),
        (7, 2, "1f1b", 7),
        (34, 4, "1f1b", 17),
        (34, 4, "interleaved", 34),
    ],
)
def test_the_fewest_keep_all_ranks_at_work(rows: int, ranks: int, schedule: str, expected: int) -> None:
    assert fewest_micro_batches(rows, ranks, schedule) == expected
