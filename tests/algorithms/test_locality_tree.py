"""Each group is entered once, whatever the root."""

from __future__ import annotations

import pytest

from ringtree.algorithms import binomial, build, locality_tree


@pytest.mark.parametrize(("ranks", "group", "root"), [(12, 3, 0), (12, 4, 7), (15, 5, 14), (32, 8, 9)])
def test_a_group_is_entered_once(ranks: int, group: int, root: int) -> None:
    rows = locality_tree.broadcast(ranks, root, group=group).expand()
    between = rows.take(rows.source // group != rows.target // group)
    assert sorted((between.target // group).tolist()) == sorted({*range(ranks // group)} - {root // group})
    inside = rows.take(rows.source // group == rows.target // group)
    assert between.round.max() < inside.round.min()


def test_a_tree_that_knows_no_groups_crosses_more_often() -> None:
    def crossings(rows):  # type: ignore[no-untyped-def]
        return int((rows.source // 3 != rows.target // 3).sum())

    assert crossings(binomial.broadcast(12, 0).expand()) > crossings(locality_tree.broadcast(12, 0, group=3).expand())


def test_groups_that_do_not_divide_are_refused() -> None:
    with pytest.raises(ValueError, match="groups of 5 do not divide 12 ranks"):
        build("locality_tree", "all_reduce", 12, group=5)
