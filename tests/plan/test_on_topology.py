"""The choice of an algorithm on a topology, and topologies of some of the ranks."""

from __future__ import annotations

import pytest

from ringtree.algorithms import build
from ringtree.plan import shortlist
from ringtree.plan.on_topology import among, choose_on
from ringtree.price import seconds
from ringtree.topology import parse


@pytest.mark.parametrize("nbytes", [8, 1 << 14, 1 << 24])
def test_the_choice_has_the_least_price(nbytes: int) -> None:
    topology = parse("torus:dims=4x2,latency=1us,bandwidth=10GB/s", 8)
    chosen = choose_on("all_reduce", topology, range(8), nbytes)
    prices = {name: seconds(build(name, "all_reduce", 8), topology, nbytes) for name in shortlist("all_reduce", 8)}
    assert prices[chosen.name] <= min(prices.values()) * 1.02


def test_size_and_place_change_the_choice() -> None:
    far = parse("ring:latency=1us,bandwidth=10GB/s", 8)
    assert choose_on("all_reduce", far, range(8), 8).name != choose_on("all_reduce", far, range(8), 1 << 26).name


def test_some_of_the_ranks_keep_their_links() -> None:
    whole = parse("ring:latency=1us,bandwidth=10GB/s", 6)
    part = among(whole, [5, 3])
    assert part.ranks == 2 and part.nodes[:2] == (whole.nodes[5], whole.nodes[3]) and part.links == whole.links
    assert [part.link_name(k) for k in part.route(0, 1)] == [whole.link_name(k) for k in whole.route(5, 3)]
    assert among(whole, range(6)) is whole


def test_a_named_algorithm_and_a_root() -> None:
    topology = parse("direct", 4)
    assert choose_on("all_reduce", topology, [2, 0, 1], 8, algorithm="ring").name == "ring"
    assert choose_on("broadcast", topology, [2, 0, 1], 8, 1).root == 1
    with pytest.raises(ValueError, match="ring does not serve barrier"):
        choose_on("barrier", topology, [0, 1], 0, algorithm="ring")


def test_groups_are_the_hosts() -> None:
    topology = parse("cluster:hosts=2", 8)
    made = choose_on("all_reduce", topology, range(8), 1 << 20, algorithm="hierarchical")
    assert str(made) == str(build("hierarchical", "all_reduce", 8, group=4))
