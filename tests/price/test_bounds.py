"""Lower bounds: ForestColl's published optima, brute force over all cuts, and no schedule below them."""

from dataclasses import replace
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ringtree.algorithms import build, pairs
from ringtree.ir.collective import COLLECTIVES
from ringtree.machines.catalogue import machine
from ringtree.machines.clusters import Cluster, NetworkShape
from ringtree.price import Bounds, bound, bounds, cuts, seconds
from ringtree.price.graph import Graph
from ringtree.price.latency import least_s
from ringtree.simulate import play
from ringtree.topology import Topology, cluster, direct, ring, switch, torus
from ringtree.topology.fabrics import FABRICS

M = 1 << 40


def boxes(count, gpus, nvswitch_Bps, nic_Bps):
    """GPUs on an NVSwitch a box, each with a NIC of its own where there are several boxes."""
    ranks, links = count * gpus, []
    for rank in range(ranks):
        links += [(rank, ranks + rank // gpus, nvswitch_Bps)]
        links += [(rank, ranks + count, nic_Bps)] if count > 1 else []
    return joined(f"{count} boxes", ranks, ranks + count + (count > 1), links, np.arange(ranks) // gpus)


def joined(name, ranks, nodes, links, hosts=0):
    """Links in both directions."""
    a, b, bandwidth_Bps = (np.array(column) for column in zip(*links, strict=True))
    ends = np.concatenate([a, b]), np.concatenate([b, a])
    names = tuple(f"node{n}" for n in range(nodes))
    return Topology.of(name, ranks, names, *ends, 1e-6, np.tile(bandwidth_Bps, 2), hosts)


@pytest.mark.parametrize(
    ("count", "algbw_GBps"), [(1, Fraction(2400, 7)), (2, Fraction(1040, 3)), (4, Fraction(800, 3))]
)
def test_the_optimum_of_dgx_a100(count, algbw_GBps):
    """ForestColl (NSDI 2026): 342.86, 346.67 and 266.67 GB/s; all_reduce takes twice as long."""
    topology = boxes(count, 8, 300e9, 25e9)
    graph = Graph.of(topology)
    assert 1 / cuts.all_gather(graph).per_byte_s == algbw_GBps * 10**9
    for collective, times in (("all_gather", 1), ("reduce_scatter", 1), ("all_reduce", 2)):
        assert bound(collective, topology, M).bandwidth_s == pytest.approx(times * M / (float(algbw_GBps) * 1e9))


@pytest.mark.parametrize("reverse", [False, True])
@given(data=st.data())
def test_no_cut_is_narrower(data, reverse):
    """Every set of nodes, on small directed graphs with switches."""
    graph = Graph.of(data.draw(topologies()))
    graph = graph.reversed() if reverse else graph
    n = graph.ranks
    into = {inside: entering(graph, inside) for inside in subsets(graph.nodes)}
    ranks = {inside: [r for r in inside if r < n] for inside in into}
    if any(not into[inside] for inside in into if 0 < len(ranks[inside]) < n):
        with pytest.raises(ValueError, match="some ranks cannot reach others"):
            cuts.all_gather(graph)
        return
    partial = [inside for inside in into if 0 < len(ranks[inside]) < n]
    assert cuts.all_gather(graph).per_byte_s == max((n - len(ranks[s])) / (n * into[s]) for s in partial)
    rootless = [s for s in partial if 0 not in s]
    assert cuts.broadcast(graph, 0).per_byte_s == max(1 / into[s] for s in rootless)
    assert cuts.scatter(graph, 0).per_byte_s == max(len(ranks[s]) / (n * into[s]) for s in rootless)


@st.composite
def topologies(draw):
    """Up to 4 ranks and 2 switches, most links there, capacities 1 to 3 so that some nodes are alike."""
    ranks = draw(st.integers(2, 4))
    nodes = ranks + draw(st.integers(0, 2))
    pairs = [(a, b) for a in range(nodes) for b in range(nodes) if a != b]
    capacity = draw(st.lists(st.sampled_from([0, 1, 1, 2, 3]), min_size=len(pairs), max_size=len(pairs)))
    links = [(a, b, c) for (a, b), c in zip(pairs, capacity, strict=True) if c]
    source, target, bandwidth_Bps = zip(*links, strict=True) if links else ((), (), ())
    return Topology.of("random", ranks, tuple(f"node{n}" for n in range(nodes)), source, target, 1e-6, bandwidth_Bps)


def subsets(nodes):
    return [frozenset(s) for size in range(1, nodes) for s in combinations(range(nodes), size)]


def entering(graph, inside):
    ends = zip(graph.source.tolist(), graph.target.tolist(), graph.which.tolist(), strict=True)
    return sum((graph.capacities[w] for a, b, w in ends if b in inside and a not in inside), Fraction(0))


TOPOLOGIES = (switch(8), direct(8), ring(8), torus(2, 4), cluster(2, 4, nics=2, message_s=5e-7, reduce_Bps=20e9))


@pytest.mark.parametrize("topology", TOPOLOGIES, ids=lambda t: t.name)
def test_no_schedule_is_quicker(topology):
    """Nor is its price: of every algorithm, long and short."""
    bounds = Bounds(topology)
    for name, collective in pairs():
        for nbytes in (8, 1 << 26):
            least = bounds.bound(collective, nbytes)
            if collective != "barrier":
                assert seconds(build(name, collective, 8), topology, nbytes) >= least.time_s * (1 - 1e-9), name


def test_some_schedules_reach_it():
    for topology in (switch(8, latency_s=0), ring(8, latency_s=0)):
        found = seconds(build("ring", "all_reduce", 8), topology, M)
        assert found / bound("all_reduce", topology, M).time_s < (1 + 1e-9) * (1 if topology.name == "switch" else 2)


def test_alike_hosts_are_bounded_as_a_few():
    """12,500 hosts, by the same rule as 4: the way into one of n hosts takes (n-1)/n of the vector."""
    for hosts in (4, 12_500):
        found = bound("all_gather", cluster(hosts, 8, local_bandwidth_Bps=400e9), M)
        assert found.bandwidth_s == pytest.approx((hosts - 1) / hosts * M / 25e9)
        assert found.bottleneck == "the link into host 0 (network -> nic0), 25 GB/s"


@pytest.mark.parametrize("network", NetworkShape)
@pytest.mark.parametrize("nodes", [1, 3])
def test_alike_nodes_stand_for_one_another(network, nodes):
    """Whatever is put together: as when every node is of a kind of its own."""
    topology = Cluster(machine("dgx-h100"), nodes, FABRICS["roce"], network).topology()
    graph = Graph.of(topology)
    alone = replace(graph, kind=np.arange(graph.nodes))
    assert int(graph.kind.max()) < graph.nodes / 2
    for there in (lambda g: g, Graph.reversed):
        assert cuts.all_gather(there(graph)).per_byte_s == cuts.all_gather(there(alone)).per_byte_s
    assert cuts.broadcast(graph, 3).per_byte_s == cuts.broadcast(alone, 3).per_byte_s
    assert cuts.scatter(graph, 3).per_byte_s == cuts.scatter(alone, 3).per_byte_s


def test_switches_that_add_and_copy():
    """Every rank sends the vector once and receives it once."""
    topology = switch(8, bandwidth_Bps=450e9)
    assert bound("all_reduce", topology, M).bandwidth_s == pytest.approx(2 * 7 / 8 * M / 450e9)
    assert bound("all_reduce", topology, M, in_network=True).bandwidth_s == pytest.approx(M / 450e9)


@pytest.mark.parametrize(("nic_Bps", "least_s"), [(400e9, M / 450e9), (25e9, M * 1.5 / 50e9)])
def test_switches_of_hosts_that_add_and_copy(nic_Bps, least_s):
    """Where ranks alone add, each takes in 7/4 of the vector; a switch spares them that, but not hosts 3/2."""
    topology = boxes(4, 2, 50e9, nic_Bps)
    assert Bounds(topology, in_hosts=True).bound("all_reduce", M).bandwidth_s == pytest.approx(least_s)


def test_latency():
    """The farthest two, or, with a cost per message, the ranks reached by then: 1 + 2 + 4 after three hops."""
    assert bound("all_gather", ring(8, latency_s=1e-6), 8).latency_s == pytest.approx(4e-6)
    assert bound("broadcast", direct(8, latency_s=1e-6), 8, root=3).latency_s == pytest.approx(1e-6)
    slow = direct(8, latency_s=0, message_s=1e-6)  # a rank has the data after 2 and sends once every 1
    assert bound("broadcast", slow, 8).latency_s == pytest.approx(5e-6)
    assert bound("barrier", slow, 0).bottleneck == "latency"


@pytest.mark.parametrize(("collective", "least_us"), [("scan", 1), ("exscan", 1), ("all_gather", 50), ("barrier", 50)])
def test_the_latency_of_a_prefix_is_that_of_the_way_up(collective, least_us):
    topology = Topology.of("one way", 2, ("a", "b"), [0, 1], [1, 0], [1e-6, 50e-6], 1e10)
    assert bound(collective, topology, 0).latency_s == pytest.approx(least_us * 1e-6)


@pytest.mark.parametrize("collective", ["scan", "exscan"])
@given(st.lists(st.sampled_from([0, 1e-6, 5e-5]), min_size=12, max_size=12))
@example([0, 1e-6, 1e-6, 5e-5, 1e-6, 1e-6, 5e-5, 5e-5, 1e-6, 5e-5, 5e-5, 5e-5])
def test_a_prefix_needs_no_message_to_a_lower_rank(collective, latency_s):
    source, target = np.divmod(np.arange(16), 4)
    apart = source != target
    topology = Topology.of("random", 4, tuple("abcd"), source[apart], target[apart], latency_s, 1e10)
    found = bound(collective, topology, 400)
    for name in ("chain", "hillis_steele", "one_shot"):
        assert play(build(name, collective, 4), topology, 400).time_s >= found.time_s * (1 - 1e-9)


def test_mistakes():
    with pytest.raises(ValueError, match=r"root 8: expected 0\.\.7"):
        bound("broadcast", switch(8), 8, root=8)
    with pytest.raises(ValueError, match="no collective 'al_reduce'"):
        bound("al_reduce", switch(8), 8)
    apart = Topology.of("apart", 2, ("a", "b"), [0], [1], 1e-6, 1e9)
    with pytest.raises(ValueError, match="apart: some ranks cannot reach others"):
        bound("all_gather", apart, 8)


def test_a_torus_that_is_too_large_to_look_at_whole_is_refused_at_once():
    with pytest.raises(ValueError, match="1,000,003 nodes of a torus; expected at most 16,384"):
        Bounds(Cluster(machine("dgx-h100"), 1_000_003, FABRICS["roce"], NetworkShape.TORUS))


@pytest.mark.parametrize("latency_s", [0.0, 1e-6])
@pytest.mark.parametrize("shape", [direct, ring, switch])
def test_bytes_take_no_time_on_infinite_links(shape, latency_s):
    bounds = Bounds(shape(4, latency_s=latency_s, bandwidth_Bps=np.inf))
    for collective in COLLECTIVES:
        found = bounds.bound(collective, M)
        assert (found.bandwidth_s, found.time_s) == (0.0, found.latency_s), collective


def test_a_finite_link_binds_beside_infinite_ones():
    found = bound("all_gather", boxes(2, 4, np.inf, 25e9), M)
    assert found.bandwidth_s == pytest.approx(M / 2 / 100e9) and found.cut.bandwidth_Bps == 100e9


def test_one_rank():
    assert bound("all_reduce", switch(1), M).time_s == 0


@pytest.mark.parametrize("network", [NetworkShape.RAILS, NetworkShape.FAT_TREE])
@pytest.mark.parametrize("oversubscription", [1.0, 3.0])
def test_a_few_nodes_stand_for_many(network, oversubscription, monkeypatch):
    cluster = Cluster(machine("dgx-h100"), 32, FABRICS["roce"], network, oversubscription)
    flat = Bounds(cluster)
    monkeypatch.setattr(bounds, "MOST_NODES", 16)
    few = Bounds(cluster)
    assert few.topology.ranks < few.ranks == flat.ranks == flat.topology.ranks
    for collective in COLLECTIVES:
        found, expected = few.bound(collective, M), flat.bound(collective, M)
        assert found.time_s == pytest.approx(expected.time_s, rel=1e-12), collective
        if collective != "all_to_all":  # half of all nodes may be as narrow as one, and is not called the same
            assert found.bottleneck.partition("(")[0] == expected.bottleneck.partition("(")[0]


@pytest.mark.parametrize(("network", "nodes", "below"), [(NetworkShape.FAT_TREE, 40, 4), (NetworkShape.RAILS, 96, 32)])
def test_the_ranks_of_a_leaf_bound_an_all_to_all(network, nodes, below):
    """On the links between a leaf, or a pod of rails, and the spine, four times as narrow as those of its machines."""
    cluster = Cluster(machine("dgx-h100"), nodes, FABRICS["infiniband"], network, 4.0)
    whole = Cluster(machine("dgx-h100"), nodes, FABRICS["infiniband"])
    found, wide = (Bounds(c).bound("all_to_all", M) for c in (cluster, whole))
    assert found.bandwidth_s == pytest.approx(wide.bandwidth_s * 4 * (nodes - below) / (nodes - 1))
    assert f"into {below} hosts" in found.bottleneck


def test_ranks_behind_two_levels_of_switches():
    """Pairs on a switch each, four of them on a switch, two of these on a third: without the last, halves; without the
    second, pairs; without the first, single ranks."""
    links = [(r, 16 + r // 2, 1e9) for r in range(16)]
    links += [(16 + k, 24 + k // 4, 1e9) for k in range(8)] + [(24, 26, 1e9), (25, 26, 1e9)]
    sets = cuts.behind_switches(Graph.of(joined("levels", 16, 27, links)))
    assert sorted(sets, key=len) == [[0], [0, 1], list(range(8))]


@pytest.mark.parametrize(("ranks", "last_us"), [(2, 12), (8, 18), (20, 26)])
def test_every_informed_rank_informs_one_more_each_message(ranks, last_us):
    """A message is 12 us on its way and 1 us of its sender's: seven hear it from the root one by one,
    nineteen also from those who heard it first."""
    topology = direct(ranks, latency_s=10e-6, message_s=1e-6)
    assert least_s(topology, 0) == pytest.approx(last_us * 1e-6)
