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


def test_messages_between_stages_cross_at_cuts() -> None:
    layout, sent = ParallelLayout(pp=4), [Traffic("activations", "send", "pp", 4, 90)]
    assert between_hosts(step(), layout, sent, (0, 1, 2, 3))[0].formula_nbytes == 90
    assert between_hosts(step(), layout, sent, (0, 0, 1, 1))[0].formula_nbytes == 30  # one cut of three
    assert between_hosts(step(), layout, sent, (0, 1, 0, 0))[0].formula_nbytes == 60
    interleaved = ParallelLayout(pp=4, schedule="interleaved")
    assert between_hosts(step(), interleaved, sent, (0, 0, 1, 1))[0].formula_nbytes is None


def test_a_ring_of_attention_crosses_where_neighbours_are_on_two_hosts() -> None:
    sent = [Traffic("keys and values", "send", "cp", 4, 80)]
    assert between_hosts(step(), ParallelLayout(cp=4), sent, (0, 0, 1, 1))[0].formula_nbytes == 40
    assert between_hosts(step(), ParallelLayout(cp=4), sent, (0, 1, 0, 1))[0].formula_nbytes == 80


@pytest.mark.parametrize("collective", FEWEST)
def test_hosts_of_one_rank_send_what_ranks_do(collective: str) -> None:
    assert FEWEST[collective]([1] * 5) == pytest.approx(IN_ALL[collective](5))
    assert FEWEST[collective]([2, 2, 2]) < IN_ALL[collective](6)
