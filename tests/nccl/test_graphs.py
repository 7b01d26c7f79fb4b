"""The channels found are those NCCL prints for the same machine."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ringtree.machines.catalogue import NAMES, machine
from ringtree.machines.channels import Pattern
from ringtree.machines.clusters import Cluster
from ringtree.machines.machine import LinkKind, PathKind
from ringtree.nccl.graphs import communicator_channels, graphs
from ringtree.nccl.graphs.system import System
from ringtree.topology.fabrics import FABRICS
from tests.nccl.by_hand import (
    a100,
    cluster,
    cube_mesh,
    h100,
    meshed,
    one_gpu,
    two_sockets,
    two_under_a_switch,
    xgmi_ring,
)

LOGGED = [
    # H100, 8 GPUs: NVIDIA/nccl issue 1197
    (cluster(h100()), Pattern.RING, 12, 30, 30, "NVL/PIX", 0, True),
    (cluster(h100()), Pattern.TREE, 12, 30, 30, "NVL/PIX", 0, True),
    (cluster(h100()), Pattern.NVLS, 8, 40, 60, "NVL/PIX", 0, False),
    # H100, 8 GPUs and 8 NICs of 400 Gbit/s, 2 machines: a published course log
    (cluster(h100(), 2), Pattern.RING, 8, 48, 48, "NVL/PIX", 2, False),
    # A100, 8 GPUs, and 2 of them: NVIDIA/nccl-tests issue 100
    (cluster(a100()), Pattern.RING, 12, 20, 20, "NVL/PIX", 0, True),
    (cluster(a100().part((0, 1))), Pattern.RING, 12, 20, 20, "NVL/PIX", 0, True),
    # V100, 4 GPUs with 2 NVLinks from each to each: NVIDIA/nccl issue 713
    (cluster(meshed(4, 70, 2)), Pattern.RING, 6, 20, 20, "NVL/PIX", 0, False),
    # 2 GPUs, each under a Skylake of its own: NVIDIA/nccl issue 1358
    (cluster(two_sockets("intel", 4, model="Skylake")), Pattern.RING, 1, 10, 10, "SYS/PIX", 0, True),
    # 2 GPUs under one Intel CPU: a published log
    (cluster(two_sockets("intel", 4, sockets=1)), Pattern.RING, 1, 20, 20, "PHB/PIX", 0, None),
    # 2 GPUs under one AMD CPU, one of them by 4 lanes: a RCCL log
    (cluster(two_sockets("amd", 4, 4, sockets=1)), Pattern.RING, 1, 6, 6, "PHB/PIX", 0, True),
    # 4 of AMD's Vega 20 joined in a ring by xGMI: a RCCL log
    (cluster(xgmi_ring()), Pattern.RING, 2, 24, 24, "NVL/PIX", 0, False),
    (cluster(xgmi_ring()), Pattern.TREE, 2, 24, 24, "NVL/PIX", 0, False),
    # 4 GPUs and 4 NICs of 10 Gbit/s under two CPUs, over TCP, 2 machines: NVIDIA/nccl issue 601
    (cluster(two_sockets("intel", 3, gpus=4, nic_Gbps=10), 2), Pattern.RING, 4, 1.2, 1.2, "SYS/SYS", 0, None),
    # 1 GPU and one NIC of 2.5 Gbit/s under a CPU, 2 machines: a published course log
    (
        cluster(two_sockets("intel", 4, gpus=1, nic_Gbps=2.5, sockets=1), 2),
        Pattern.RING,
        1,
        0.24,
        0.24,
        "LOC/PHB",
        0,
        True,
    ),
    (
        cluster(two_sockets("intel", 4, gpus=1, nic_Gbps=2.5, sockets=1), 2),
        Pattern.TREE,
        1,
        1.2,
        0.24,
        "LOC/PHB",
        0,
        True,
    ),
]
"""What NCCL printed for such a machine: nChannels, bw, type, crossNic and sameChannels (None: of an old NCCL)."""


@pytest.mark.parametrize(("system", "pattern", "count", "intra", "inter", "kinds", "cross", "same"), LOGGED)
def test_channels_are_those_nccl_printed(
    system: Cluster, pattern: Pattern, count: int, intra: float, inter: float, kinds: str, cross: int, same: bool | None
) -> None:
    found = graphs(system)[pattern]
    assert (found.count, found.intra_Bps / 1e9, found.inter_Bps / 1e9) == (count, intra, inter)
    assert (f"{found.intra.name}/{found.inter.name}", found.cross_nic) == (kinds, cross)
    assert same in (None, found.same)


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


def test_a_machine_without_gpus_has_no_channels() -> None:
    none = Cluster(machine("cpu-2s"))
    assert graphs(none) == {}
    assert communicator_channels(graphs(none), none) == 0


@pytest.mark.parametrize("name", sorted(set(NAMES) - {"dgx-h100-superpod", "mi250x8", "ascend-910b-x8"}))
def test_every_machine_of_the_catalogue_has_channels(name: str) -> None:
    alone = Cluster(machine(name))
    for found in graphs(alone).values():
        gpus = len(alone.machine.gpus)
        assert all(sorted(one) == list(range(gpus)) for one in found.orders)
        assert 0 < found.count <= 32
        assert found.intra_Bps >= 3e9


def test_hopper_on_switches_has_nvls_with_a_head_on_every_gpu() -> None:
    nvls = graphs(cluster(h100()))[Pattern.NVLS]
    assert sorted(order[0] for order in nvls.orders) == list(range(8))
    assert nvls.intra_Bps == 40e9
    assert Pattern.NVLS not in graphs(cluster(a100()))


def test_a_gpu_without_links_to_the_switches_is_none_of_nvls() -> None:
    """One whose links failed, or that has them one way."""
    whole = h100()
    cut = whole.gpus[3]
    for end in ("source", "target"):
        links = [k for k in whole.links if k.kind is not LinkKind.NVLINK or getattr(k, end) != cut]
        found = {g.pattern for g in graphs(cluster(replace(whole, links=tuple(links)))).values()}
        assert Pattern.RING in found and Pattern.NVLS not in found


def test_a_head_of_nvls_takes_its_own_share_twice() -> None:
    assert graphs(cluster(h100(gpus=7)))[Pattern.NVLS].intra_Bps == 40e9  # 7 of 50 would fit, 8 do not


def test_hopper_has_simple_trees_between_machines_and_ampere_balanced_ones() -> None:
    assert graphs(cluster(h100(), 2))[Pattern.TREE].pattern is Pattern.TREE
    assert graphs(cluster(a100(), 2))[Pattern.TREE].pattern is Pattern.BALANCED_TREE


def test_through_nvswitches_rings_go_down_and_trees_up() -> None:
    found = graphs(cluster(a100(), 2))
    assert found[Pattern.RING].orders[0] == (0, 7, 6, 5, 4, 3, 2, 1)
    assert found[Pattern.TREE].orders[1] == (1, 2, 3, 4, 5, 6, 7, 0)


@pytest.mark.parametrize(("sm", "GBps"), [(70, 10), (80, 12)])
def test_received_bytes_cost_an_old_gpu_an_eighth_of_its_sending(sm: int, GBps: float) -> None:
    assert graphs(cluster(one_gpu(sm), 2))[Pattern.RING].inter_Bps == GBps * 1e9


@pytest.mark.parametrize(("model", "kind"), [("A100", PathKind.PIX), ("GeForce RTX 4090", PathKind.PHB)])
def test_gpus_without_peer_access_go_through_the_cpu(model: str, kind: PathKind) -> None:
    assert graphs(cluster(two_under_a_switch(model)))[Pattern.RING].intra is kind


def test_collnet_is_there_where_the_switches_reduce() -> None:
    assert {Pattern.COLLNET_CHAIN, Pattern.COLLNET_DIRECT} <= set(graphs(cluster(h100(), 4, sharp=True)))
    assert not {Pattern.COLLNET_CHAIN, Pattern.COLLNET_DIRECT} & set(graphs(cluster(h100(), 4)))


def test_the_number_of_machines_does_not_change_their_channels() -> None:
    assert graphs(cluster(h100(), 2)) == graphs(cluster(h100(), 12_500))


@pytest.mark.parametrize("rate", [400, 200, 100, 25])
def test_slower_nics_never_make_more_of_a_machine(rate: float) -> None:
    def total(Gbps: float) -> float:
        ring = graphs(cluster(h100(Gbps), 2))[Pattern.RING]
        return ring.count * ring.inter_Bps

    assert total(rate / 2) <= total(rate) <= 8 * rate * 1e9 / 8


def test_systems_are_equal_where_a_search_finds_the_same_by_its_rules() -> None:
    """And are searched once: another name is no difference, a slower link, another CPU or older GPUs are."""
    first = cluster(two_sockets("intel", 4, model="Skylake", nic_Gbps=100), 2)
    machine = first.machine
    others = [
        two_sockets("intel", 4, width=8, model="Skylake", nic_Gbps=100),
        two_sockets("amd", 4, nic_Gbps=100),
        replace(machine, devices=tuple(replace(device, sm=min(device.sm, 70)) for device in machine.devices)),
    ]
    system = System(first)
    assert System(replace(first, machine=replace(machine, name="another"))) == system
    assert all(System(replace(first, machine=other)) != system for other in others)
    assert System(replace(first, nodes=1)) != system == System(replace(first, nodes=3))


def test_a_rack_of_72_on_switches_is_searched_among_neighbours() -> None:
    ring = graphs(cluster(h100(gpus=72)))[Pattern.RING]
    assert ring.count == 12
    assert ring.intra is PathKind.NVL


def test_between_two_gpus_trees_use_both_directions() -> None:
    """A tree has two of the 12 NVLinks in each direction, and the 12 trees use both directions."""
    (ring, tree) = (graphs(Cluster(machine("dgx-a100").part(range(2))))[p] for p in (Pattern.RING, Pattern.TREE))
    assert (ring.count, tree.count) == (12, 12) and tree.intra_Bps == 2 * ring.intra_Bps


def test_amds_newer_gpus_have_channels_as_fast_as_a_link() -> None:
    """RCCL's rules for them are NCCL's from Hopper on, though they have no compute capability."""
    for nodes in (1, 2):
        ring = graphs(Cluster(machine("mi300x8"), nodes, FABRICS["infiniband"]))[Pattern.RING]
        assert ring.intra_Bps == 48e9 and ring.count >= 6
