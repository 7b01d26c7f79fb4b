"""The channels found are those NCCL prints for the same machine."""

from __future__ import annotations

import pytest

from ringtree.search import communicator_channels, graphs
from ringtree.topology.channels import Channels, Pattern
from ringtree.topology.clusters import Cluster
from ringtree.topology.machine import PathKind
from tests.search.by_hand import a100, cluster, cube_mesh, h100

FOUND = [
    (cluster(h100()), Pattern.RING, 12, 30, 30),
    (cluster(h100()), Pattern.TREE, 12, 30, 30),
    (cluster(h100(), 2), Pattern.RING, 8, 48, 48),
    (cluster(h100(), 2), Pattern.TREE, 8, 48, 48),
    (cluster(a100()), Pattern.RING, 12, 20, 20),
    (cluster(a100(), 2), Pattern.RING, 8, 24, 24),
    (cluster(cube_mesh()), Pattern.RING, 6, 20, 20),
    (cluster(cube_mesh(), 2), Pattern.RING, 4, 12, 12),
]


@pytest.mark.parametrize(("system", "pattern", "count", "intra", "inter"), FOUND)
def test_channels_are_as_many_and_as_fast_as_nccls(
    system: Cluster, pattern: Pattern, count: int, intra: float, inter: float
) -> None:
    found = graphs(system)[pattern]
    assert (found.count, found.intra_Bps / 1e9, found.inter_Bps / 1e9) == (count, intra, inter)


@pytest.mark.parametrize(
    ("system", "count"),
    [(cluster(h100()), 24), (cluster(a100()), 24), (cluster(h100(), 2), 16), (cluster(a100(), 4), 16)],
)
def test_a_communicator_opens_twice_the_channels(system: Cluster, count: int) -> None:
    assert communicator_channels(graphs(system), system) == count


@pytest.mark.parametrize("system", [cluster(h100(), 2), cluster(a100()), cluster(cube_mesh()), cluster(cube_mesh(), 2)])
def test_every_channel_passes_every_gpu_once(system: Cluster) -> None:
    for pattern, found in graphs(system).items():
        assert all(sorted(order) == list(range(8)) for order in found.orders), pattern
        assert len(found.nics) == (found.count if system.nodes > 1 else 0)


def test_a_pair_of_crossing_rings_leaves_each_nic_as_often_as_it_enters() -> None:
    ring = graphs(cluster(h100(), 2))[Pattern.RING]
    assert ring.cross_nic == 2
    assert sorted(a for a, _ in ring.nics) == sorted(b for _, b in ring.nics) == list(range(8))
    assert all(ring.nics[c] == ring.nics[c + 1][::-1] for c in range(0, ring.count, 2))


def test_hopper_on_switches_has_nvls_with_a_head_on_every_gpu() -> None:
    nvls = graphs(cluster(h100()))[Pattern.NVLS]
    assert sorted(order[0] for order in nvls.orders) == list(range(8))
    assert nvls.intra_Bps == 40e9
    assert Pattern.NVLS not in graphs(cluster(a100()))


def test_collnet_is_there_where_the_switches_reduce() -> None:
    assert {Pattern.COLLNET_CHAIN, Pattern.COLLNET_DIRECT} <= set(graphs(cluster(h100(), 4, sharp=True)))
    assert not {Pattern.COLLNET_CHAIN, Pattern.COLLNET_DIRECT} & set(graphs(cluster(h100(), 4)))


def test_the_number_of_machines_does_not_change_their_channels() -> None:
    assert graphs(cluster(h100(), 2)) == graphs(cluster(h100(), 12_500))


@pytest.mark.parametrize("rate", [400, 200, 100, 25])
def test_slower_nics_never_make_more_of_a_machine(rate: float) -> None:
    def total(found: Channels) -> float:
        return found.count * found.inter_Bps

    assert total(graphs(cluster(h100(rate), 2))[Pattern.RING]) <= rate * 1e9 / 8 * 8
    assert total(graphs(cluster(h100(rate / 2), 2))[Pattern.RING]) <= total(
        graphs(cluster(h100(rate), 2))[Pattern.RING]
    )


def test_a_rack_of_72_on_switches_is_searched_among_neighbours() -> None:
    ring = graphs(cluster(h100(gpus=72)))[Pattern.RING]
    assert ring.count == 12
    assert ring.intra is PathKind.NVL
