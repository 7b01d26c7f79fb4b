"""The naive tree: its shape, and the bandwidth that it loses to the double tree."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from ringtree.algorithms.trees import binary_tree, double_tree


def test_the_tree_of_seven() -> None:
    rows = binary_tree.broadcast(7, 0).expand()
    assert list(zip(rows.source.tolist(), rows.target.tolist(), strict=True)) == [
        (0, 1), (0, 2), (1, 3), (1, 4), (2, 5), (2, 6),
    ]  # fmt: skip
    assert binary_tree.broadcast(7, 3).expand().source.tolist()[:2] == [3, 3]


@pytest.mark.parametrize("n", [6, 8, 15, 32])
def test_the_busiest_rank_sends_twice_the_double_trees_bytes(n: int) -> None:
    busiest = [s.chunks_sent().max() / s.chunks for s in (binary_tree.broadcast(n, 0), double_tree.broadcast(n, 0))]
    assert busiest == [2, 1]


def test_up_and_down_are_one_block() -> None:
    assert [b.rounds for b in binary_tree.all_reduce(8).blocks] == [6]


@pytest.mark.parametrize("n", [3, 4, 7, 8, 15, 33])
def test_ranks_with_one_port_take_twice_the_steps(n: int) -> None:
    example = runpy.run_path(str(Path(__file__).parents[3] / "examples" / "half_bandwidth.py"))
    naive, double = (example["steps"](schedule) for schedule in example["trees"](n))
    assert naive >= 2 * example["PIECES"]
    assert example["PIECES"] <= double <= example["PIECES"] + 2 * (n - 1).bit_length()
