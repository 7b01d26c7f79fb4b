"""Bytes of a step that left hosts, beside the fewest that could."""

from __future__ import annotations

import pytest

from ringtree.training import ParallelLayout
from ringtree.training.measure.between_hosts import FEWEST, BetweenHosts, between_hosts
from ringtree.training.strategies.strategy import FEWEST as IN_ALL
from ringtree.training.strategies.strategy import Traffic
from tests.training.test_shares import LAYOUT, TRAFFIC, step


def test_what_crosses_hosts_is_counted_by_collective_axis_and_link() -> None:
    """Ranks 0, 1 and 2, 3 share hosts: tensor parallel groups are inside, data parallel ones between."""
    assert between_hosts(step(), LAYOUT, TRAFFIC, (0, 0, 1, 1)) == [
        BetweenHosts("all_reduce", "data", 100, 100, 100),
        BetweenHosts("broadcast", "dp", 1, 0, 0),
    ]
    assert between_hosts(step(), LAYOUT, TRAFFIC, (0, 1, 0, 1)) == [BetweenHosts("all_reduce", "tp", 30, 30, 30)]
    assert between_hosts(step(), LAYOUT, TRAFFIC, (0, 0, 0, 0)) == []


def test_the_busiest_link_is_that_of_the_host_that_sends_most() -> None:
    found = between_hosts(step(), LAYOUT, [], (0, 1, 2, 2))
    assert found == [BetweenHosts("all_reduce", "dp", 0, 100, 60), BetweenHosts("all_reduce", "tp", 0, 30, 30)]


def test_messages_between_ranks_have_a_formula_where_each_is_on_a_host_of_its_own() -> None:
    layout, sent = ParallelLayout(pp=4), [Traffic("activations", "send", "pp", 4, 90)]
    assert between_hosts(step(), layout, sent, (0, 1, 2, 3))[0].formula_nbytes == 90
    assert between_hosts(step(), layout, sent, (0, 0, 1, 1))[0].formula_nbytes is None


@pytest.mark.parametrize("collective", FEWEST)
def test_hosts_of_one_rank_send_what_ranks_do(collective: str) -> None:
    assert FEWEST[collective]([1] * 5) == pytest.approx(IN_ALL[collective](5))
    assert FEWEST[collective]([2, 2, 2]) < IN_ALL[collective](6)
