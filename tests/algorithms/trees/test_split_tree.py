"""Chains inside, double tree between; NCCL's over four hosts of eight."""

from __future__ import annotations

import numpy as np
import pytest

from ringtree.algorithms import build
from ringtree.algorithms.trees import double_tree, split_tree
from ringtree.transform import pipeline
from ringtree.verify import prove


def test_ncclss_first_tree_over_four_hosts_of_eight() -> None:
    rows = split_tree.all_reduce(32, group=8).expand()
    up = rows.take(rows.reduce & (rows.source_chunk == 0))
    starts = set(range(32)) - set(up.target.tolist())
    assert starts == {15, 31, 23, 7}
    assert set(range(32)) - set(up.source.tolist()) == {0}
    assert up.target[-1] == 0
    between = up.take(up.source // 8 != up.target // 8)
    assert set(zip((between.source // 8).tolist(), (between.target // 8).tolist(), strict=True)) == {
        (1, 2), (3, 2), (2, 0),
    }  # fmt: skip


@pytest.mark.parametrize(("ranks", "group"), [(32, 8), (12, 3), (15, 5), (8, 2), (8, 8), (7, 1)])
def test_a_rank_has_at_most_two_below_and_one_path_between(ranks: int, group: int) -> None:
    schedule = split_tree.all_reduce(ranks, group=group)
    rows = schedule.expand()
    for tree in (0, 1):
        down = rows.take(~rows.reduce & (rows.source_chunk == tree))
        assert np.bincount(down.source).max() <= 2 + (group > 1)
        between = down.take(down.source // group != down.target // group)
        assert len(between) == ranks // group - 1
        assert sorted(down.target.tolist()) == sorted(set(range(ranks)) - {int(down.source[0])})
    prove(schedule)
    prove(pipeline(schedule, 5))


def test_groups_of_one_are_the_double_tree() -> None:
    ours, theirs = split_tree.all_reduce(8, group=1).expand(), double_tree.all_reduce(8).expand()
    assert {*zip(ours.source.tolist(), ours.target.tolist(), ours.source_chunk.tolist(), strict=True)} == {
        *zip(theirs.source.tolist(), theirs.target.tolist(), theirs.source_chunk.tolist(), strict=True)
    }


def test_groups_that_do_not_divide_are_refused() -> None:
    with pytest.raises(ValueError, match="split_tree: groups of 5 do not divide 12 ranks; expected a divisor of 12"):
        build("split_tree", "all_reduce", 12, group=5)
