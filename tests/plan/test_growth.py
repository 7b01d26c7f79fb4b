"""How algorithms grow, beside the table of names that it replaced, and beside their schedules."""

from __future__ import annotations

import pytest

from ringtree.algorithms import build, serving
from ringtree.ir.collective import COLLECTIVES
from ringtree.plan.growth import linear, representatives, transfers

ANY_NUMBER = ["ring", "torus", "hierarchical", "binary_tree", "double_tree", "parameter_server"]


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_representatives_are_those_of_the_table(collective: str) -> None:
    assert representatives(collective) == [name for name in ANY_NUMBER if name in serving(collective)]


@pytest.mark.parametrize(
    ("name", "collective", "few"),
    [("chain", "broadcast", 15), ("double_tree", "all_reduce", 60), ("flat", "gather", 15)],
)
def test_a_tree_grows_as_its_ranks(name: str, collective: str, few: int) -> None:
    assert linear(name, collective) and build(name, collective, 16).transfers == few
    assert transfers(name, collective, 1000) == pytest.approx(build(name, collective, 1000).transfers, rel=0.01)


@pytest.mark.parametrize("name", ["ring", "torus", "recursive_doubling", "halving_doubling", "two_shot"])
def test_rounds_in_which_all_ranks_send_do_not(name: str) -> None:
    assert not linear(name, "all_reduce")
    assert transfers(name, "all_reduce", 10_000) > 100_000
