"""A topology finds its links and its routes, and refuses impossible links."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringtree.topology import Topology, cluster, direct, ring, switch, torus
from tests.effort import counted


def graph(links, ranks=2, nodes=4, **columns):
    """`links`: (source, target, latency)."""
    source, target, latency_s = zip(*links, strict=True)
    return Topology.of("graph", ranks, tuple("abcdefgh"[:nodes]), source, target, latency_s, 1e9, **columns)


def test_the_route_has_the_fewest_links_then_the_least_latency():
    t = graph([(0, 2, 5.0), (2, 1, 5.0), (0, 3, 1.0), (3, 1, 1.0)])
    assert t.route(0, 1) == (2, 3)
    assert graph([(0, 2, 1.0), (2, 1, 1.0), (0, 1, 9.0)]).route(0, 1) == (2,)


def test_of_equal_routes_the_first_listed_is_taken():
    assert graph([(0, 3, 1.0), (3, 1, 1.0), (0, 2, 1.0), (2, 1, 1.0)]).route(0, 1) == (0, 1)


def test_a_failed_link_is_gone_round():
    t = graph([(0, 1, 1.0), (0, 2, 1.0), (2, 1, 1.0)])
    assert t.route(0, 1) == (0,)
    cut = Topology.of("cut", 2, t.nodes, t.source, t.target, t.latency_s, [0, 1, 1])
    assert cut.route(0, 1) == (1, 2)


def test_a_missing_route_is_named():
    with pytest.raises(ValueError, match="graph has no route from b to a"):
        graph([(0, 1, 1.0)]).route(1, 0)


def test_a_rank_reaches_itself_over_no_link():
    assert direct(3).route(1, 1) == ()


def test_a_message_costs_its_ends_more_between_hosts():
    t = Topology.of("three", 3, tuple("abcs"), [0, 1], [1, 2], 0, 1, [0, 0, 1], message_s=2, away_message_s=5.0)
    source, target = np.array([(0, 1), (1, 2), (2, 0), (0, 3), (3, 2), (2, 2)]).T
    assert t.message_work_s(source, target).tolist() == [2, 7, 7, 2, 2, 2]


@st.composite
def linked(draw):
    """(nodes, links): at least one link, each between two nodes."""
    nodes = draw(st.integers(2, 6))
    ends = st.tuples(st.integers(0, nodes - 1), st.integers(1, nodes - 1))
    links = draw(st.lists(st.tuples(ends, st.integers(0, 3)), min_size=1, max_size=20))
    each = {(a, (a + further) % nodes): float(latency) for (a, further), latency in links}
    return nodes, [(a, b, latency) for (a, b), latency in each.items()]


@given(linked())
def test_routes_are_the_best_of_all_walks(drawn):
    """Held to Floyd and Warshall's recurrence on (links, latency)."""
    nodes, links = drawn
    t = graph(links, ranks=nodes, nodes=nodes)
    best = {(a, b): (1, c) for a, b, c in links}
    for k in range(nodes):
        for a in range(nodes):
            for b in range(nodes):
                if (a, k) in best and (k, b) in best and a != b:
                    through = tuple(np.add(best[a, k], best[k, b]))
                    best[a, b] = min(best.get((a, b), through), through)
    for a in range(nodes):
        for b in set(range(nodes)) - {a}:
            if (a, b) in best:
                path = t.route(a, b)
                assert (len(path), sum(t.latency_s[list(path)])) == best[a, b]
                ends = [a, *t.target[list(path)].tolist()]
                assert ends[-1] == b
                assert t.source[list(path)].tolist() == ends[:-1]
            else:
                with pytest.raises(ValueError, match="no route"):
                    t.route(a, b)


def test_a_thousand_ranks_that_are_all_linked_are_built_and_routed_at_once():
    with counted() as effort:
        t = direct(1000)
        assert [t.route(r, (r * 7 + 1) % 1000) for r in range(1000)]
    assert t.links == 999_000 and effort.calls < 200_000


def test_links_and_nodes_are_found_by_their_names():
    t = switch(2)
    assert t.link_name(t.link(1, t.node("switch"))) == "rank1 -> switch"
    with pytest.raises(ValueError, match="switch has no link from rank0 to rank1"):
        t.link(0, 1)
    with pytest.raises(ValueError, match="switch has no node 'nic': expected one of rank0, rank1, switch"):
        t.node("nic")
    with pytest.raises(ValueError, match=r"no node 3: expected 0\.\.2"):
        t.link(0, 3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ranks": 0}, "0 ranks and 2 nodes"),
        ({"ranks": 3}, "3 ranks and 2 nodes"),
        ({"nodes": ("a", "a")}, "two nodes are named 'a'"),
        ({"source": [0, 2]}, r"link 1 \(source 2, .*expected nodes of 0\.\.1"),
        ({"source": [0, 0], "target": [1, 1]}, "link 1 .* there are two"),
        ({"target": [1, 1]}, "link 1 .* expected two nodes"),
        ({"latency_s": [0, -1]}, "link 1 .* expected a latency"),
        ({"latency_s": np.inf}, "link 0 .* expected a latency"),
        ({"bandwidth_Bps": [np.nan, 1]}, "link 0 .* expected a bandwidth"),
        ({"bandwidth_Bps": [1, 1e-300]}, "link 1 .* expected a bandwidth"),
        ({"message_s": -1.0}, "message_s is -1.0; expected at least 0"),
        ({"step_s": 1e300}, r"step_s is 1e\+300; expected at least 0, at most 1e\+09"),
        ({"copy_Bps": 0.0}, "copy_Bps is 0.0; expected at least 1e-09"),
        ({"speed": 1.0}, "has no 'speed'"),
    ],
)
def test_impossible_links_are_refused(change, message):
    given = {"ranks": 2, "nodes": ("a", "b"), "source": [0, 1], "target": [1, 0], "latency_s": 0, "bandwidth_Bps": 1}
    with pytest.raises(ValueError, match=message):
        Topology.of("bad", **(given | change))


@pytest.mark.parametrize(
    "topology", [direct(5), switch(5), ring(5), torus(2, 3), torus(1, 2, 4), cluster(3, 4, nics=2)]
)
def test_every_rank_reaches_every_other(topology):
    for a in range(topology.ranks):
        for b in range(topology.ranks):
            path = list(topology.route(a, b))
            assert (not path) == (a == b)
            assert len(set(path)) == len(path)


@pytest.mark.parametrize(
    "shape", [direct(5), switch(5), ring(7), torus(3, 4), cluster(3, 4, nics=2)], ids=lambda t: t.name
)
def test_routes_of_many_pairs_are_those_of_each(shape):
    failed = shape.bandwidth_Bps.copy()
    failed[0] = 0
    for topology in (shape, replace(shape, bandwidth_Bps=failed)):
        source, target = np.divmod(np.arange(topology.ranks**2), topology.ranks)
        pairs = list(zip(source.tolist(), target.tolist(), strict=True))
        try:
            expected = [topology.route(*pair) for pair in pairs]
        except ValueError:
            assert topology.routes(source, target) is None
            continue
        first, link = topology.routes(source, target)
        assert [tuple(link[a:b].tolist()) for a, b in pairwise(first.tolist())] == expected
