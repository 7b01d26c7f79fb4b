"""Clusters: their nodes and links, and routes that are NCCL's paths."""

from dataclasses import replace
from itertools import pairwise
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringtree.machines.catalogue import machine
from ringtree.machines.clusters import Cluster, NetworkShape
from ringtree.machines.machine import DeviceKind
from ringtree.topology.fabrics import FABRICS
from ringtree.topology.graph import Topology
from ringtree.topology.networks import grid

IB = FABRICS["infiniband"]


def way(topology, source, target):
    """The nodes between two, in words, `node0/` and `node1/` as 0/ and 1/."""
    names = [topology.nodes[topology.target[link]] for link in topology.route(source, target)]
    return " ".join(names[:-1]).replace("node", "")


@pytest.mark.parametrize(
    ("name", "source", "target", "expected"),
    [
        ("dgx-h100", 0, 7, "0/nvswitch0"),
        ("dgx-h100", 0, 8, "0/pci0 0/nic0 rail0 1/nic0 1/pci0"),
        ("dgx-h100", 0, 9, "0/nvswitch0 rank1 0/pci1 0/nic1 rail1 1/nic1 1/pci1"),  # PXN
        ("dgx-a100", 0, 9, "0/pci1 0/nic1 rail1 1/nic1 1/pci1"),  # two NICs are as near
        ("dgx-1-v100", 0, 5, "rank1"),  # NVB
        ("dgx-1-v100", 0, 10, "rank2 0/pci1 0/nic1 rail1 1/nic1 1/pci1"),
        ("dgx-1-v100", 0, 14, "0/pci0 0/nic0 rail0 spine rail3 1/nic3 1/pci3"),  # no NVLink to a GPU of that NIC
        ("v100-pcie", 0, 1, "0/pci0"),
        ("v100-pcie", 0, 4, "0/pci0 0/cpu0 0/pci0 0/nic0 rail0 1/nic0 1/pci0"),  # below sm80 NICs do not read
        ("rtx4090-pcie", 0, 1, "0/cpu0"),
        ("aws-p5", 0, 8, "0/pci0 0/nic0-nic3 rail0 1/nic0-nic3 1/pci0"),
    ],
)
def test_routes_are_nccls_paths(name, source, target, expected):
    fabric = FABRICS["tcp"] if name.startswith("rtx") else IB
    assert way(Cluster(machine(name), 2, fabric).topology(), source, target) == expected


def test_tcp_goes_by_the_hosts_memory_at_both_ends():
    t = Cluster(machine("dgx-h100"), 2, FABRICS["tcp"]).topology()
    assert way(t, 0, 8) == "0/pci0 0/cpu0 0/pci0 0/nic0 rail0 1/nic0 1/pci0 1/cpu0 1/pci0"


def test_ranks_come_first_then_devices_then_switches():
    t = Cluster(machine("dgx-h100"), 2, IB).topology()
    assert t.nodes[:16] == tuple(f"rank{r}" for r in range(16))
    assert t.hosts.tolist() == [0] * 8 + [1] * 8
    assert {"node0/cpu1", "node1/nic7", "node1/nvswitch0"} < set(t.nodes[16:-9])
    assert t.nodes[-9:] == (*(f"rail{k}" for k in range(8)), "spine")
    assert Cluster(machine("dgx-h100")).topology().nodes[8] == "cpu0"


def test_a_nic_carries_the_fabrics_payload_or_the_kernels_rate():
    m = machine("dgx-h100")
    for fabric, expected in ((IB, 50e9 * 4096 / 4122), (FABRICS["tcp"], 42e9 / 8)):
        t = Cluster(m, 2, fabric).topology()
        up, down = t.link(t.node("node0/nic3"), t.node("rail3")), t.link(t.node("rail3"), t.node("node1/nic3"))
        assert t.bandwidth_Bps[[up, down]].tolist() == pytest.approx([expected] * 2)


def test_nics_of_one_gpu_are_one_node_with_all_their_bandwidth():
    t = Cluster(machine("aws-p5"), 2, FABRICS["efa"]).topology()
    link = t.link(t.node("node1/nic4-nic7"), t.node("rail1"))
    assert t.bandwidth_Bps[link] == pytest.approx(4 * 12.5e9 * FABRICS["efa"].payload)


def test_from_nic_to_nic_takes_the_fabrics_latency():
    t = Cluster(machine("dgx-h100"), 2, IB).topology()
    alone = Cluster(machine("dgx-h100"), 2, replace(IB, latency_s=0.2e-6)).topology()
    one, other = (t.latency_s[list(t.route(0, 8))].sum() for t in (t, alone))
    assert one - other == pytest.approx(IB.latency_s - 0.2e-6)


def test_oversubscription_thins_the_spine_alone():
    full, half = (Cluster(machine("dgx-h100"), 4, IB, oversubscription=k).topology() for k in (1, 2))
    thinner = full.bandwidth_Bps != half.bandwidth_Bps
    assert {full.nodes[n] for n in full.source[thinner]} == {"spine", *(f"rail{k}" for k in range(8))}
    assert np.allclose(full.bandwidth_Bps[thinner], 2 * half.bandwidth_Bps[thinner])


def test_more_machines_than_a_leaf_has_ports_are_pods_of_rails_where_that_matters():
    assert way(Cluster(machine("dgx-h100"), 33, IB).topology(), 0, 32 * 8) == "0/pci0 0/nic0 rail0 32/nic0 32/pci0"
    t = Cluster(machine("dgx-h100"), 33, IB, oversubscription=2).topology()
    assert way(t, 0, 31 * 8) == "0/pci0 0/nic0 pod0/rail0 31/nic0 31/pci0"
    assert way(t, 0, 32 * 8) == "0/pci0 0/nic0 pod0/rail0 spine pod1/rail0 32/nic0 32/pci0"


def test_a_fat_tree_has_machines_under_leaves():
    t = Cluster(machine("dgx-h100"), 5, IB, NetworkShape.FAT_TREE).topology()
    assert way(t, 0, 24) == "0/pci0 0/nic0 leaf0 3/nic0 3/pci0"
    assert way(t, 0, 32) == "0/pci0 0/nic0 leaf0 spine leaf1 4/nic0 4/pci0"


def test_a_torus_takes_the_shorter_direction():
    t = Cluster(machine("dgx-h100"), 5, IB, NetworkShape.TORUS).topology()
    assert way(t, 0, 16) == "0/pci0 0/nic0 1/nic0 2/nic0 2/pci0"
    assert way(t, 0, 32) == "0/pci0 0/nic0 4/nic0 4/pci0"
    assert t.bandwidth_Bps[t.route(0, 8)[2]] == pytest.approx(50e9 * IB.payload / 2)


@given(st.integers(1, 5000))
def test_a_grid_holds_all_machines(machines):
    dims = grid(machines)
    assert np.prod(dims) == machines
    assert len(dims) <= 3


def test_grids_are_near_to_cubes():
    assert [sorted(grid(n)) for n in (1, 2, 7, 12, 64, 1000, 12500)] == [
        [1], [2], [7], [3, 4], [4, 4, 4], [10, 10, 10], [20, 25, 25]
    ]  # fmt: skip


@pytest.mark.slow
@given(
    st.sampled_from(["dgx-1-v100", "dgx-h100", "v100-pcie", "mi250x8", "azure-nc96", "gb200-nvl72", "cpu-2s"]),
    st.integers(2, 6),
    st.sampled_from(NetworkShape),
    st.sampled_from(["infiniband", "tcp"]),
    st.data(),
)
def test_routes_join_up(name, nodes, network, fabric, data):
    """From any rank to any other, links follow one another, none twice, and all at once are as one by one."""
    t = Cluster(machine(name), nodes, FABRICS[fabric], network).topology()
    pairs = np.array(data.draw(st.lists(st.tuples(*[st.integers(0, t.ranks - 1)] * 2), min_size=1, max_size=5)))
    first, links = t.routes(*pairs.T)
    for k, (source, target) in enumerate(pairs.tolist()):
        route = links[first[k] : first[k + 1]].tolist()
        assert tuple(route) == t.route(source, target)
        assert len(set(route)) == len(route)
        at = source
        for link in route:
            assert t.source[link] == at
            at = t.target[link]
        assert at == target


def test_a_failed_link_is_gone_around():
    t = Cluster(machine("dgx-h100"), 2, IB).topology()
    failed = t.route(0, 8)[2]
    bandwidth_Bps = t.bandwidth_Bps.copy()
    bandwidth_Bps[failed] = 0
    route = replace(t, bandwidth_Bps=bandwidth_Bps).route(0, 8)
    assert failed not in route
    assert all(t.target[a] == t.source[b] for a, b in pairwise(route))


def test_only_pairs_without_a_path_are_searched():
    t = Cluster(machine("gb200-nvl72"), 2, FABRICS["tcp"], NetworkShape.TORUS).topology()
    pairs = np.array([(0, 1), (76, 0), (1, 0), (5, 5)])  # no CPU leads from one tray's NIC to another's GPU
    first, links = t.routes(*pairs.T)
    assert [links[a:b].tolist() for a, b in pairwise(first)] == [list(t.route(a, b)) for a, b in pairs.tolist()]
    assert way(t, 0, 1) == "0/nvswitch0"
    assert "rank" in way(t, 76, 0)


def test_from_a_device_routes_are_a_topologys():
    t = Cluster(machine("dgx-h100"), 2, IB).topology()
    assert way(t, t.node("node0/cpu0"), 0) == "0/pci0"
    assert isinstance(t, Topology)


def test_100000_ranks_take_no_search():
    t = Cluster(machine("dgx-h100"), 12500, IB).topology()
    rank = np.arange(t.ranks)
    first, _ = t.routes(rank, (rank + 8) % t.ranks)
    assert np.all(np.diff(first) == 6)
    assert t.nodes[-10].startswith("node12499/")


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda m: Cluster(m, 0), "0 nodes"),
        (lambda m: Cluster(m, 2), "no fabric"),
        (lambda m: Cluster(m, 2, IB, oversubscription=0.5), "oversubscription 0.5"),
        (lambda m: Cluster(m, 2, IB, oversubscription=inf), "oversubscription inf"),
        (lambda m: Cluster(m, 2, IB, NetworkShape.TORUS, oversubscription=2), "a torus has no spine"),
        (lambda m: Cluster(m, 2, FABRICS["roce"], sharp=True), "SHARP over roce, where no switch reduces"),
        (lambda m: Cluster(replace(m, devices=m.devices[-1:], links=()), 1).topology(), "neither GPU nor CPU"),
        (lambda m: Cluster(replace(m, devices=(), links=())).ranks, "neither GPU nor CPU"),
        (
            lambda m: Cluster(replace(m, devices=tuple(replace(d, rate_Bps=0.0) for d in m.devices)), 2, IB).topology(),
            "nic0 has no rate; expected one, as --nics 8x400Gb",
        ),
        (lambda m: Cluster(replace(m, links=()), 2, IB).topology(), "gpu0 reaches no NIC"),
    ],
)
def test_impossible_clusters_are_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build(machine("dgx-h100"))


@pytest.mark.parametrize("network", [NetworkShape.RAILS, NetworkShape.FAT_TREE])
def test_a_switch_takes_its_time_once(network):
    """From NIC to NIC it is the fabric's latency, in which there is one switch."""
    infiniband = FABRICS["infiniband"]
    slower = replace(infiniband, hop_s=infiniband.hop_s + 1e-6, latency_s=infiniband.latency_s + 1e-6)
    took_s = []
    for fabric in (infiniband, slower):
        topology = Cluster(machine("dgx-h100"), 2, fabric, network).topology()
        took_s.append(topology.latency_s[list(topology.route(0, 8))].sum())
    assert took_s[1] - took_s[0] == pytest.approx(1e-6)
    assert took_s[0] == pytest.approx(infiniband.latency_s, abs=1.5e-6)


@pytest.mark.parametrize(
    ("name", "gpus", "nics"),
    [
        ("gb200-nvl72", range(4), 4),  # a tray
        ("gb200-nvl72", range(6), 8),
        ("gb200-nvl72", (0, 4, 71), 12),
        ("gb200-nvl72", range(72), 72),
        ("dgx-h100-superpod", range(9), 16),
        ("dgx-h100", range(4), 8),  # one host has them all
        ("gh200x4", (3,), 4),
    ],
)
def test_a_part_of_a_rack_has_the_nics_of_its_hosts(name, gpus, nics):
    whole = machine(name)
    part = whole.part(gpus)
    assert len(part.nics) == nics and len(part.gpus) == len(gpus)
    assert len(part.of_kind(DeviceKind.NVSWITCH)) == len(whole.of_kind(DeviceKind.NVSWITCH))
