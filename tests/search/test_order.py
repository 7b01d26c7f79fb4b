"""Rings that pass near links first: faster than rank order where a machine is not symmetric, no slower where it is."""

from __future__ import annotations

from itertools import pairwise, permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringtree import price
from ringtree.algorithms.rings import ring
from ringtree.machines.catalogue import machine
from ringtree.machines.channels import Pattern
from ringtree.machines.clusters import Cluster
from ringtree.nccl.files.graph_xml import read
from ringtree.search import order, rings
from ringtree.search.routes import Routes, Where, topology_of
from ringtree.simulate import play
from ringtree.topology import Topology
from ringtree.topology.fabrics import FABRICS
from ringtree.transform import relabel, share

MIB = 1 << 20
INFINIBAND = FABRICS["infiniband"]
V100 = machine("dgx-1-v100")
UNEVEN = [  # how many times faster the order is, and all rings together
    (V100, 1.95, 5.8),
    (V100.part((0, 1, 2, 4, 5, 6)), 1.95, 7.6),
    (V100.part((0, 1, 3, 4, 6, 7)), 0.999, 1.7),
    (machine("azure-nc96"), 1.0, 1.95),
    (machine("azure-nc96").part((0, 2, 1, 3)), 1.0, 1.95),
    (machine("mi250x8"), 1.8, 5.0),
    (Cluster(V100, 2, INFINIBAND), 1.0, 3.7),
]
EVEN = [machine("dgx-h100"), machine("dgx-2"), machine("gb200-nvl72"), Cluster(machine("dgx-h100"), 4, INFINIBAND)]


@pytest.mark.parametrize(("where", "ordered", "together"), UNEVEN)
def test_orders_and_rings_side_by_side_are_faster_than_rank_order(
    where: Where, ordered: float, together: float
) -> None:
    topology = topology_of(where)
    plain = ring.all_reduce(topology.ranks)
    one = relabel(plain, order(where))
    many = share(*(relabel(plain, found) for found in rings(where, 6)))
    for seconds in (
        lambda schedule: price.seconds(schedule, topology, 64 * MIB),
        lambda schedule: play(schedule, topology, 64 * MIB).time_s,
    ):
        assert seconds(plain) / seconds(one) >= ordered
        assert seconds(plain) / seconds(many) >= together


@pytest.mark.parametrize("where", EVEN)
def test_no_order_is_worse_than_rank_order_where_all_are_alike(where: Where) -> None:
    topology = topology_of(where)
    plain = ring.all_reduce(topology.ranks)
    for nbytes in (8, 64 * MIB):
        found = price.seconds(relabel(plain, order(where)), topology, nbytes)
        assert found <= price.seconds(plain, topology, nbytes) * (1 + 1e-9)


def test_the_cube_meshs_six_rings_share_no_direction_of_a_link() -> None:
    routes = Routes(topology_of(V100), range(8))
    loads = [0] * routes.links()
    found = rings(V100)
    for one in found:
        routes.load(one, loads)
    assert len(found) == 6
    assert sorted(loads) == [0] * loads.count(0) + [1] * 16 + [2] * 16


def test_azures_own_rings_are_found(data_folder: Path) -> None:
    theirs = read(data_folder / "nccl_topo_xml" / "azure__ncv4-graph.xml")[Pattern.RING]
    assert set(rings(machine("azure-nc96"))) == set(theirs.orders)


@given(st.permutations(range(1, 6)), st.integers(0, 2**32 - 1))
def test_few_ranks_are_searched_exactly(hidden: list[int], seed: int) -> None:
    slow = np.random.default_rng(seed).uniform(1.0, 4.0, (6, 6))
    near = list(zip([0, *hidden], [*hidden, 0], strict=True))
    source, target = np.divmod(np.arange(36), 6)
    keep = source != target
    bandwidth = 1e9 / slow[source[keep], target[keep]]
    bandwidth[[list(zip(source[keep], target[keep], strict=True)).index(edge) for edge in near]] = 2e9
    topology = Topology.of("random", 6, tuple(f"r{n}" for n in range(6)), source[keep], target[keep], 0, bandwidth)
    routes = Routes(topology, range(6))
    least = min(routes.cost((0, *rest))[0] for rest in permutations(range(1, 6)))
    assert routes.cost(order(topology))[0] == pytest.approx(least)


def between_all(latency_s: list[float], bandwidth_Bps: list[float], hosts: tuple[int, ...]) -> Topology:
    """A link between any two ranks, in the order of their pairs."""
    ranks = len(hosts)
    source, target = np.divmod(np.arange(ranks * ranks), ranks)
    apart = source != target
    ends, names = (source[apart], target[apart]), tuple(f"r{n}" for n in range(ranks))
    return Topology.of("random", ranks, names, *ends, latency_s, bandwidth_Bps, hosts)


def best_cost(topology: Topology) -> tuple[float, float]:
    """Of all rings: the time of a byte on the busiest link, then the latency."""
    routes = Routes(topology, range(topology.ranks))
    return min(routes.cost((0, *rest))[:2] for rest in permutations(range(1, topology.ranks)))


def test_the_latency_counts_where_the_links_of_the_first_rank_are_the_slow_ones() -> None:
    near = {frozenset(pair) for pair in ((1, 3), (3, 2), (2, 4))}
    pairs = [(a, b) for a in range(5) for b in range(5) if a != b]
    latency_s = [1e-6 if 0 in pair or frozenset(pair) in near else 5e-5 for pair in pairs]
    topology = between_all(latency_s, [1e9 if 0 in pair else 1e10 for pair in pairs], (0, 0, 0, 0, 0))
    assert order(topology) == (0, 1, 3, 2, 4)


@given(
    st.lists(st.sampled_from([0.0, 1e-6]), min_size=12, max_size=12),
    st.lists(st.sampled_from([1e9, 1e10]), min_size=12, max_size=12),
    st.sampled_from([(0, 0, 0, 0), (0, 0, 1, 1), (0, 1, 0, 1), (0, 1, 1, 2)]),
)
def test_no_order_has_more_latency_for_the_same_busiest_link(
    latency_s: list[float], bandwidth_Bps: list[float], hosts: tuple[int, ...]
) -> None:
    """Than any other order on one host, than the ranks' own over hosts."""
    topology = between_all(latency_s, bandwidth_Bps, hosts)
    routes = Routes(topology, range(4))
    byte_s, found_s = routes.cost(order(topology))[:2]
    least_byte_s, least_s = routes.cost(range(4))[:2] if any(hosts) else best_cost(topology)
    assert byte_s <= least_byte_s * (1 + 1e-9)
    assert found_s <= least_s * (1 + 1e-9) or byte_s < least_byte_s * (1 - 1e-9)


@given(st.integers(1, 4), st.integers(2, 5), st.booleans())
def test_each_host_is_passed_once(gpus: int, nodes: int, many: bool) -> None:
    where = Cluster(V100.part(range(gpus)), nodes, INFINIBAND)
    for one in rings(where, 4) if many else (order(where),):
        assert sorted(one) == list(range(gpus * nodes))
        hosts = [rank // gpus for rank in one]
        assert sum(a != b for a, b in pairwise(hosts)) == nodes - 1


def test_every_second_host_is_passed_backwards_so_that_rings_stay_on_their_rails() -> None:
    one = order(Cluster(machine("dgx-h100"), 4, INFINIBAND))
    leaves = [(a % 8, b % 8) for a, b in zip(one, (*one[1:], one[0]), strict=True) if a // 8 != b // 8]
    assert all(a == b for a, b in leaves)


def test_one_rank_and_two_have_one_order() -> None:
    assert order(V100.part((3,))) == (0,)
    assert rings(V100.part((3, 4))) == ((0, 1),)
    with pytest.raises(ValueError, match="0 rings; expected at least 1"):
        rings(V100, 0)


def test_thousands_of_hosts_cost_no_more_than_a_few() -> None:
    assert len(order(Cluster(machine("dgx-h100"), 1500, INFINIBAND))) == 12_000


@pytest.mark.parametrize("where", ["dgx-h100", None])
def test_what_is_no_place_is_refused(where: Any) -> None:
    with pytest.raises(TypeError, match=r"where is .*; expected a Machine \(ringtree"):
        order(where)
