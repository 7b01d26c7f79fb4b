"""Properties computed from schedules, beside the tables of names that they replaced, and beside the schedules."""

from __future__ import annotations

import pytest

from ringtree.algorithms import build, serving
from ringtree.ir.collective import COLLECTIVES
from ringtree.plan import prove_own
from ringtree.plan.properties import Joinings, at_once, in_rank_order, joinings, order
from ringtree.verify import rank_order

IN_RANK_ORDER = {
    "all_reduce": {"one_shot", "two_shot", "locality_tree", "parameter_server"},
    "reduce": {"flat"},
    "reduce_scatter": {"two_shot"},
    "scan": {"hillis_steele", "one_shot", "chain", "inorder_tree"},
    "exscan": {"hillis_steele", "one_shot", "chain", "inorder_tree"},
}
AT_ONCE = {
    "all_reduce": ("one_shot", "two_shot", "parameter_server"),
    "reduce": ("flat",),
    "reduce_scatter": ("two_shot",),
    "scan": ("one_shot",),
    "exscan": ("one_shot",),
}


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_orders_are_those_of_the_tables(collective: str) -> None:
    assert set(in_rank_order(collective)) == IN_RANK_ORDER.get(collective, set())
    assert at_once(collective) == AT_ONCE.get(collective, ())


@pytest.mark.parametrize("collective", IN_RANK_ORDER)
def test_an_order_is_that_of_the_schedules(collective: str) -> None:
    """Also over numbers of ranks that nobody looked at."""
    for name in serving(collective):
        for ranks in (5, 7, 12):
            roots = (0, 2, ranks - 1) if COLLECTIVES[collective].rooted else (None,)
            least = min(rank_order(build(name, collective, ranks, root)) for root in roots)
            assert order(name, collective) is least, (name, ranks)


def test_joinings_one_after_another() -> None:
    assert joinings("one_shot", "all_reduce") == Joinings(1, 7, True)
    assert joinings("two_shot", "all_reduce") == Joinings(2, 7, False)
    assert joinings("two_shot", "reduce_scatter") == Joinings(1, 7, True)
    assert joinings("locality_tree", "all_reduce") == Joinings(6, 3, True)
    assert joinings("hillis_steele", "scan") == Joinings(3, 3, True)
    with pytest.raises(ValueError, match="ring does not join all_reduce in rank order"):
        joinings("ring", "all_reduce")


def test_published_schedules_are_not_proved_again() -> None:
    prove_own("ring", "all_reduce", 1 << 20)
