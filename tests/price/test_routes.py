"""Routes of many pairs: those of the topology's own search, also over alike nodes and failed links."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringtree.price import routes
from ringtree.topology import Topology, cluster, torus


def check(topology: Topology, source: np.ndarray, target: np.ndarray) -> None:
    """Fewest links, then the least latency; several routes may be as good."""
    first, links = routes.routes(topology, source, target)
    for k, (a, b) in enumerate(zip(source.tolist(), target.tolist(), strict=True)):
        found, known = links[first[k] : first[k + 1]], list(topology.route(a, b))
        ends = [a, *topology.target[found].tolist()]
        assert ends[:-1] == topology.source[found].tolist() and ends[-1] == b
        assert len(found) == len(known) and np.all(topology.bandwidth_Bps[found] > 0)
        assert topology.latency_s[found].sum() == pytest.approx(topology.latency_s[known].sum())


@given(data=st.data())
def test_routes_are_those_of_the_topology(data: st.DataObject) -> None:
    """Hosts of ranks, with a NIC for one or several, and links that failed or are slower than others."""
    hosts, each = data.draw(st.integers(2, 4)), data.draw(st.integers(5, 12))
    topology = cluster(hosts, each, nics=data.draw(st.integers(1, 3)))
    slower = np.array(data.draw(st.lists(st.sampled_from([1.0, 1.0, 2.0]), min_size=7, max_size=7)))
    topology = replace(topology, latency_s=topology.latency_s * np.resize(slower, len(topology.latency_s)))
    pairs = np.array([(a, b) for a in range(topology.ranks) for b in range(topology.ranks) if a != b])
    chosen = pairs[data.draw(st.integers(0, 6)) :: 7]
    check(topology, *chosen.T)


@pytest.mark.parametrize("topology", [torus(6, 7), cluster(2, 20), cluster(2, 20, nics=2)], ids=lambda t: t.name)
def test_routes_go_round_failed_links(topology: Topology) -> None:
    """Every ninth of the links from or to ranks."""
    bandwidth_Bps = topology.bandwidth_Bps.copy()
    near = np.flatnonzero((topology.source < topology.ranks) | (topology.target < topology.ranks))
    bandwidth_Bps[near[::9]] = 0
    ranks = np.arange(topology.ranks)
    check(replace(topology, bandwidth_Bps=bandwidth_Bps), ranks, np.roll(ranks, 7))


@pytest.mark.parametrize("fast", [None, 0, 1, 2])
def test_the_quicker_of_alike_spines_is_taken(fast: int | None) -> None:
    """40 ranks below four leaves, and three spines, of which one may be nearer to the leaves that it leads to."""
    up = [(rank, 40 + rank // 10, 1.0) for rank in range(40)]
    up += [(40 + leaf, 44 + spine, 2.0) for leaf in range(4) for spine in range(3)]
    down = [(b, a, 1.0 if b - 44 == fast else latency_s) for a, b, latency_s in up]
    source, target, latency_s = map(np.array, zip(*up, *down, strict=True))
    names = tuple(f"node{n}" for n in range(47))
    topology = Topology.of("leaves", 40, names, source, target, latency_s, 1e9, np.arange(40) // 10)
    ranks = np.arange(40)
    for by in (3, 10, 25):
        check(topology, ranks, np.roll(ranks, by))


def test_a_pair_without_a_route_is_named() -> None:
    topology = cluster(2, 20)
    bandwidth_Bps = np.where(topology.target == 3, 0.0, topology.bandwidth_Bps)
    with pytest.raises(ValueError, match="no route from rank10 to rank3"):
        routes.routes(replace(topology, bandwidth_Bps=bandwidth_Bps), np.arange(40), np.roll(np.arange(40), 7))


def test_a_topology_without_links_has_no_route() -> None:
    ranks, none = np.arange(40), np.array([], np.int64)
    alone = Topology.of("apart", 40, tuple(f"rank{k}" for k in range(40)), none, none, 1e-6, 1e9, ranks // 40)
    with pytest.raises(ValueError, match="apart has no route from rank0 to rank1"):
        routes.routes(alone, ranks, np.roll(ranks, -1))
