"""Our model of the hardware: its properties for all parameters."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringtree.machines.catalogue import machine
from ringtree.machines.clusters import Cluster, NetworkShape
from ringtree.machines.nics import with_nics
from ringtree.nccl import transport, tuning
from ringtree.nccl.estimate import Estimate
from ringtree.nccl.graphs import graphs as find_graphs
from ringtree.nccl.transport.figures import BOARD_HEADS, NIC_SHARE, HEAD_us
from ringtree.nccl.transport.hardware import latency_us, nics_limit
from ringtree.nccl.transport.trees import tree_us
from ringtree.nccl.tuning.all_pairs import ALL_PAIRS
from ringtree.nccl.tuning.channels import chunk_bytes
from ringtree.nccl.tuning.communicator import NcclCommunicator
from ringtree.price.bounds import Bounds
from ringtree.topology.fabrics import FABRICS

INFINIBAND = FABRICS["infiniband"]
GiB = 1 << 30


def found(cluster: Cluster, collective: str, nbytes: int) -> dict[str, Estimate]:
    some = transport.estimates(cluster, find_graphs(cluster), collective, nbytes)
    return {f"{e.algorithm}/{e.protocol}": e for e in some}


def test_the_candidates_are_nccls() -> None:
    cluster = Cluster(machine("dgx-h100"), 2, INFINIBAND)
    graphs = find_graphs(cluster)
    for collective in tuning.COLLECTIVES:
        ours = transport.estimates(cluster, graphs, collective, 1 << 20)
        theirs = tuning.estimates(cluster, graphs, collective, 1 << 20)
        assert {(e.algorithm, e.protocol) for e in ours} == {(e.algorithm, e.protocol) for e in theirs}


@pytest.mark.parametrize("collective", ["all_reduce", "all_gather", "broadcast"])
def test_half_the_nics_rate_is_half_the_plateau_where_they_are_the_limit(collective: str) -> None:
    plateaus = []
    for rate in (25e9, 12.5e9):
        cluster = Cluster(with_nics(machine("dgx-h100"), 8, rate), 4, INFINIBAND)
        ring = found(cluster, collective, 16 * GiB)["ring/simple"]
        assert ring.bottleneck.startswith("NICs: 8 x")
        plateaus.append(16 * GiB / ring.time_s)
    assert plateaus[1] / plateaus[0] == pytest.approx(0.5, rel=0.01)


def test_a_name_changes_nothing() -> None:
    known = machine("gcp-a3-high")
    renamed = replace(known, name="something")
    for nbytes in (1 << 10, 1 << 30):
        one, other = (found(Cluster(m, 2, FABRICS["tcpx"]), "all_gather", nbytes) for m in (known, renamed))
        assert one == other


def test_a_fabric_with_longer_hops_is_slower_where_the_size_is_small() -> None:
    times = [
        found(Cluster(machine("dgx-h100"), 2, FABRICS[name]), "all_reduce", 1 << 10)["tree/ll"].time_s
        for name in ("infiniband", "roce", "tcp")
    ]
    assert times == sorted(times) and times[0] < times[-1]


NIC_GBps = 50 * INFINIBAND.payload * NIC_SHARE
RAILS, FAT_TREE, TORUS = NetworkShape.RAILS, NetworkShape.FAT_TREE, NetworkShape.TORUS
SHARES = [
    # the network, machines of 8 NICs, oversubscription, collective, algorithm, share of the bandwidth without limit
    (FAT_TREE, 4, 4.0, "all_gather", "ring/simple", 1.0),  # one leaf
    (FAT_TREE, 4, 4.0, "all_to_all", "p2p/simple", 1.0),
    (FAT_TREE, 8, 4.0, "all_gather", "ring/simple", 1.0),  # one machine of the four under a leaf passes the ring on
    (FAT_TREE, 8, 8.0, "all_gather", "ring/simple", 1 / 2),
    (FAT_TREE, 5, 4.0, "all_gather", "ring/simple", 1 / 4),  # the fifth is alone under its leaf
    (FAT_TREE, 5, 4.0, "all_to_all", "p2p/simple", 1 / 4),
    (FAT_TREE, 8, 4.0, "all_to_all", "p2p/simple", 7 / 16),  # four of seven others are under the other leaf
    (FAT_TREE, 8, 64.0, "gather", "p2p/simple", 7 / 8),  # one NIC takes what 32 ports of the leaf have, over 64
    (FAT_TREE, 8, 128.0, "send_recv", "p2p/simple", NIC_GBps / 4 / 20),  # a NIC of four; a peer has two channels
    (RAILS, 8, 4.0, "all_to_all", "p2p/simple", 1.0),  # every rail has one leaf
    (RAILS, 8, 64.0, "send_recv", "p2p/simple", 1.0),
    (RAILS, 64, 4.0, "all_to_all", "p2p/simple", 63 / 128),  # two pods of 32 machines
    (RAILS, 64, 64.0, "all_gather", "ring/simple", 1 / 2),
    (TORUS, 8, 1.0, "all_gather", "ring/simple", 1 / 3),  # 4 x 2: three directions
    (TORUS, 8, 1.0, "all_to_all", "p2p/simple", 7 / 18),
    (TORUS, 8, 1.0, "gather", "p2p/simple", 7 / 12),
    (TORUS, 8, 1.0, "scatter", "p2p/simple", 7 / 12),
]


@pytest.mark.parametrize(("network", "nodes", "over", "collective", "which", "share"), SHARES)
def test_the_network_leaves_a_share_of_the_nics(
    network: NetworkShape, nodes: int, over: float, collective: str, which: str, share: float
) -> None:
    free = Cluster(machine("dgx-h100"), nodes, INFINIBAND)
    limited = Cluster(machine("dgx-h100"), nodes, INFINIBAND, network, over)
    one, other = (found(c, collective, 64 * GiB)[which] for c in (limited, free))
    assert one.bandwidth_Bps == pytest.approx(other.bandwidth_Bps * share)
    words = "over a torus of 4 x 2" if network is TORUS else f"oversubscribed {over:g}"
    assert (words in one.bottleneck) == (share < 1), one.bottleneck


@pytest.mark.parametrize("gpus", [1, 8])
@pytest.mark.parametrize(("network", "nodes"), [(TORUS, 3), (TORUS, 12), (RAILS, 40), (FAT_TREE, 9)])
@pytest.mark.parametrize("collective", ["all_to_all", "gather", "scatter", "all_gather"])
def test_no_prediction_between_nodes_beats_the_bound(
    network: NetworkShape, nodes: int, gpus: int, collective: str
) -> None:
    over = 1.0 if network is TORUS else 4.0
    cluster = Cluster(machine("dgx-h100").part(range(gpus)), nodes, INFINIBAND, network, over)
    bound_s = Bounds(cluster).bound(collective, GiB).time_s
    assert min(e.time_s for e in found(cluster, collective, GiB).values()) >= bound_s


@pytest.mark.parametrize("collective", ["broadcast", "reduce"])
@pytest.mark.parametrize("gpus", [(0, 1), (2, 3)])
def test_gpus_below_one_switch_share_its_link_and_its_nic(collective: str, gpus: tuple[int, ...]) -> None:
    cluster = Cluster(machine("mi250x8").part(gpus), 3, INFINIBAND)
    bound_s = Bounds(cluster).bound(collective, GiB).time_s
    assert min(e.time_s for e in found(cluster, collective, GiB).values()) >= bound_s


BOTTLENECKS = [
    ("dgx-a100", 1, "all_reduce", "ring/simple", GiB, "NVLink: 12 x 25 GB/s at 80 %"),
    ("dgx-h100", 1, "all_reduce", "nvls/simple", GiB, "NVLink SHARP"),
    ("dgx-h100", 1, "all_reduce", "ring/ll", 8, "latency: 8 ranks"),
    ("dgx-h100", 4, "all_reduce", "ring/simple", GiB, "NICs: 8 x 50 GB/s"),
    ("dgx-h100", 4, "all_reduce", "tree/ll", 8, "latency: 32 ranks on 4 nodes"),
    ("dgx-h100", 1, "all_reduce", "ring/ll", GiB, "protocol: LL"),
    ("rtx4090-pcie", 1, "all_reduce", "ring/simple", GiB, "copying through the host's memory, GPUs without P2P"),
    ("a100-pcie-nvlink-pairs", 2, "all_gather", "ring/simple", GiB, "CPU link: between GPUs and NICs"),
    ("dgx-h100", 1, "all_reduce", "tree/simple", GiB, "NVLink: 18 x 25 GB/s at 80 %"),
]


@pytest.mark.parametrize(("name", "nodes", "collective", "which", "nbytes", "words"), BOTTLENECKS)
def test_the_bottleneck_is_named(name: str, nodes: int, collective: str, which: str, nbytes: int, words: str) -> None:
    cluster = Cluster(machine(name), nodes, INFINIBAND if nodes > 1 else None)
    assert found(cluster, collective, nbytes)[which].bottleneck.startswith(words)


CLUSTERS = [
    Cluster(machine("dgx-h100")),
    Cluster(machine("dgx-a100"), 4, INFINIBAND),
    Cluster(machine("mi300x8")),
    Cluster(machine("gh200x4"), 3, FABRICS["slingshot"]),
    Cluster(machine("gcp-a3-high"), 2, FABRICS["tcpx"]),
]


@given(
    st.integers(0, len(CLUSTERS) - 1),
    st.sampled_from(sorted(tuning.COLLECTIVES)),
    st.integers(1, 1 << 34),
    st.sampled_from([2, 3, 8]),
)
def test_times_are_above_latency_and_more_takes_longer(place: int, collective: str, nbytes: int, times: int) -> None:
    one, more = (
        {
            (e.algorithm, e.protocol): e
            for e in transport.estimates(CLUSTERS[place], find_graphs(CLUSTERS[place]), collective, n)
        }
        for n in (nbytes, nbytes * times)
    )
    program = {(ALL_PAIRS, "ll"), (ALL_PAIRS, "simple")}  # which ends at a size
    assert one.keys() - program == more.keys() - program != set()
    for which, e in one.items():
        assert 0 < e.latency_s <= e.time_s * 1.001
        assert e.bandwidth_Bps > 0 and e.channels >= 1
        assert nbytes / e.time_s <= e.bandwidth_Bps * 1.001
        assert which not in more or more[which].time_s > e.time_s * 0.95


EXCHANGED = [
    ("dgx-a100", 1, "all_to_all", 7 / 8 / 195e9, "NVLink"),
    ("dgx-b200", 1, "all_to_all", 7 / 8 / (32 * 21.2e9), "copying: 32 blocks, each 21.2 GB/s"),
    ("dgx-1-v100", 1, "all_to_all", 3 / 8 / 20e9, "NVLink"),
    ("dgx-h100", 2, "all_to_all", 8 / 16 / (4 * 10e9), "copying: 4 blocks for other machines"),
    ("dgx-h100", 4, "all_to_all", 24 / 32 / 50e9, "NICs: 8 x 50 GB/s"),
    ("dgx-h100", 2, "send_recv", 1 / (4 * 10e9), "copying: 4 blocks for other machines"),
    ("mi300x8", 1, "all_to_all", 1 / 8 / 48e9, "xGMI"),
    ("dgx-h100", 1, "gather", 7 / 8 / 346e9, "NVLink: nvswitch0 to gpu0"),
    ("dgx-1-v100", 1, "scatter", 2 / 8 / 20e9, "NVLink: gpu0 to"),
    ("rtx4090-pcie", 1, "all_to_all", 16 / 8 / 16e9, "CPU link"),
]


@pytest.mark.parametrize(("name", "nodes", "collective", "s_per_byte", "words"), EXCHANGED)
def test_sends_and_receives_take_the_time_of_the_busiest_link_or_nic(
    name: str, nodes: int, collective: str, s_per_byte: float, words: str
) -> None:
    """Within a tenth: NICs give a little less than their rate, and a pipeline fills."""
    cluster = Cluster(machine(name), nodes, INFINIBAND if nodes > 1 else None)
    (only,) = transport.estimates(cluster, find_graphs(cluster), collective, 4 * GiB)
    assert (only.algorithm, only.protocol) == ("p2p", "simple")
    assert only.time_s == pytest.approx(4 * GiB * s_per_byte, rel=0.1)
    assert only.bottleneck.startswith(words)


@pytest.mark.parametrize("collective", ["all_to_all", "gather", "scatter", "send_recv"])
def test_small_pieces_go_with_ll_and_are_latency(collective: str) -> None:
    best = found(Cluster(machine("dgx-h100"), 2, INFINIBAND), collective, 1 << 10)["p2p/ll"]
    assert best.bottleneck.startswith("latency") and best.time_s < 100e-6


def test_gpus_joined_all_to_all_by_xgmi_have_as_many_rings_as_peers() -> None:
    ring = found(Cluster(machine("mi300x8")), "all_gather", 4 * GiB)["ring/simple"]
    assert ring.bandwidth_Bps == pytest.approx(7 * 48e9 * 8 / 7)
    assert ring.bottleneck.startswith("xGMI: 7 x 64 GB/s")


def test_gpus_joined_all_to_all_by_xgmi_have_a_ring_from_each_nic_between_machines() -> None:
    ring = found(Cluster(machine("mi300x8"), 2, FABRICS["roce"]), "all_reduce", 16 * GiB)["ring/simple"]
    assert ring.bottleneck == "NICs: 8 x 50 GB/s"
    assert ring.bandwidth_Bps * 30 / 16 == pytest.approx(8 * 50e9 * FABRICS["roce"].payload * NIC_SHARE)


def test_rccl_has_its_own_latencies_and_choice() -> None:
    some = found(Cluster(machine("mi300x8")), "all_reduce", 8)
    assert set(some) == {"ring/ll", "ring/simple", "tree/ll", "all_pairs/ll"}
    assert some["ring/ll"].latency_s == pytest.approx((12.0 + 14 * 0.8) * 1e-6)


def test_a_connections_buffer_under_way_limits_it_where_hops_are_long() -> None:
    ring = found(Cluster(machine("gcp-a3-high"), 2, FABRICS["tcpx"]), "all_gather", 4 * GiB)["ring/simple"]
    assert ring.bottleneck.startswith("tcpx: 4 MiB under way")
    assert ring.bandwidth_Bps < 4 * 25e9


def test_switches_that_reduce_in_the_network_pass_the_nics_once() -> None:
    """So it is faster than trees, which pass them twice from four nodes on, and no faster than the NICs."""
    plain = Cluster(machine("dgx-h100"), 8, INFINIBAND)
    reducing, tree = (found(c, "all_reduce", 16 * GiB) for c in (replace(plain, sharp=True), plain))
    one, other = reducing["nvls/simple"], tree["nvls_tree/simple"]
    assert 1.2 * other.bandwidth_Bps < one.bandwidth_Bps < 8 * 50e9
    assert "nvls/simple" not in tree


@pytest.mark.parametrize(
    ("name", "nics", "rate_Bps", "which"),
    [
        ("dgx-h100", 1, 0.125e9, "tree/simple"),
        ("dgx-h100", 1, 0.125e9, "collnet_direct/simple"),
        ("dgx-a100", 1, 1.25e9, "tree/simple"),
        ("aws-p4d", 4, 12.5e9, "tree/simple"),
        ("mi250x8", 1, 3.125e9, "tree/simple"),
        ("v100-pcie", 1, 1.25e9, "tree/simple"),
    ],
)
def test_links_that_the_search_left_at_twice_the_nics_are_not_the_bottleneck(
    name: str, nics: int, rate_Bps: float, which: str
) -> None:
    cluster = Cluster(with_nics(machine(name), nics, rate_Bps), 2, INFINIBAND, sharp="collnet" in which)
    assert found(cluster, "all_reduce", GiB)[which].bottleneck.startswith(f"NICs: {nics} x {rate_Bps / 1e9:g} GB/s")


def test_links_that_are_full_at_twice_the_nics_are_the_bottleneck() -> None:
    """Four rings over the cube's NVLinks of 20 GB/s fill them, by NICs of 10 GB/s."""
    cluster = Cluster(with_nics(machine("dgx-1-v100"), 4, 10.7e9), 2, INFINIBAND)
    assert found(cluster, "all_reduce", GiB)["tree/simple"].bottleneck.startswith("NVLink: 6 x 25 GB/s at 53 %")


def test_pat_has_a_bottleneck_where_no_link_is_within() -> None:
    cluster = Cluster(machine("dgx-h100").part([0]), 4, INFINIBAND)
    assert found(cluster, "all_gather", GiB)["pat/simple"].bottleneck == "NICs: 1 x 50 GB/s"


@pytest.mark.parametrize(("name", "threads"), [("rtx4090-pcie", "1 thread"), ("dgx-a100", "4 threads")])
def test_a_rank_with_channels_has_a_thread_for_its_sockets(name: str, threads: str) -> None:
    """Eight GPUs each, but no more channels than that between machines."""
    tcp = FABRICS["tcp"]
    ring = found(Cluster(machine(name), 2, tcp), "all_gather", 16 * GiB)["ring/simple"]
    assert ring.bottleneck == f"tcp: {threads} of 5.25 GB/s"
    assert ring.bandwidth_Bps == pytest.approx(int(threads[0]) * tcp.kernel_Bps * 16 / 15)


def test_one_gpu_of_each_machine_has_its_near_nic_and_no_link_within() -> None:
    for name, fabric, nic_Bps in (("dgx-h100", "infiniband", 50e9), ("gh200x4", "slingshot", 25e9)):
        ring = found(Cluster(machine(name).part([0]), 2, FABRICS[fabric]), "all_reduce", 16 * GiB)["ring/simple"]
        assert ring.bottleneck.startswith("NICs: 1 x")
        assert 0.85 * nic_Bps < ring.bandwidth_Bps < nic_Bps


def test_more_blocks_between_racks_do_not_make_the_switches_faster() -> None:
    rack = machine("gb200-nvl72")
    one, two = (found(c, "all_reduce", 64 * GiB) for c in (Cluster(rack), Cluster(rack, 2, INFINIBAND)))
    assert two["nvls_tree/simple"].channels > one["nvls/simple"].channels
    assert two["nvls_tree/simple"].bandwidth_Bps == pytest.approx(one["nvls/simple"].bandwidth_Bps, rel=0.05)


def test_each_level_of_a_tree_of_racks_fills_by_a_loop_up_and_one_down() -> None:
    """Four and eight racks are two levels and three."""
    rack, size, filled = machine("gb200-nvl72"), 8 * GiB, []
    graphs = find_graphs(Cluster(rack, 4, INFINIBAND))
    for nodes in (4, 8):
        comm = NcclCommunicator(Cluster(rack, nodes, INFINIBAND), graphs)
        heads = comm.heads("nvls_tree")
        loop = chunk_bytes(comm, "nvls_tree", heads, size) * comm.nvls_channels * heads
        time_us = tree_us(comm, "all_reduce", "nvls_tree", "simple", size, 400.0)
        filled.append(time_us - latency_us(comm, "all_reduce", "nvls_tree", "simple"))
    assert heads > BOARD_HEADS
    loop_us = loop / 400e3 + (heads - BOARD_HEADS) * HEAD_us[comm.generation]
    assert filled[1] - filled[0] == pytest.approx(2 * loop_us)


def test_a_rack_is_as_fast_alone_as_among_others() -> None:
    rack, size = machine("gb200-nvl72"), 8 * GiB
    clusters = [Cluster(rack), *(Cluster(rack, nodes, INFINIBAND) for nodes in (2, 3, 4))]
    alone, *among = (found(c, "all_reduce", size)[f"nvls{'_tree' * (c.nodes > 1)}/simple"] for c in clusters)
    assert all(e.bandwidth_Bps <= alone.bandwidth_Bps and e.time_s >= alone.time_s for e in among)
    times = [Bounds(c, in_hosts=True).bound("all_reduce", size).time_s for c in clusters]
    assert times == sorted(times)


@pytest.mark.parametrize("gpus", [4, 8])
def test_a_tree_of_three_nodes_passes_the_nics_one_and_a_half_times(gpus: int) -> None:
    """As published for GB200 in three NVLink partitions (NVIDIA/nccl issue 1801), whose blocks copy more than NCCL's
    table for many nodes has."""
    partition = with_nics(machine("gb200-nvl72").part(range(gpus)), gpus, 50e9)
    tree = found(Cluster(partition, 3, INFINIBAND), "all_reduce", 16 * GiB)["tree/simple"]
    assert tree.bottleneck.startswith(f"NICs: {gpus} x 50 GB/s")
    assert tree.bandwidth_Bps == pytest.approx(gpus * 50e9 / 1.5, rel=0.07)


def test_a_nic_carries_no_more_than_its_slot() -> None:
    h100 = machine("dgx-h100")
    devices = list(h100.devices)
    devices[h100.nics[0]] = replace(devices[h100.nics[0]], rate_Bps=100e9)
    limit = nics_limit(replace(h100, devices=tuple(devices)), INFINIBAND, [0])
    assert limit.words == "NICs: 1 x 100 GB/s in slots of 57.6 GB/s"
    assert limit.GBps == pytest.approx(63.015 * 256 / 280 * NIC_SHARE, rel=1e-3)


def test_shorter_chunks_of_a_board_are_posted_more_often() -> None:
    """As on eight B200: 424 GB/s from 512 MiB to 1 GiB, in chunks of 64 KiB, and 486 from 2 GiB on, in 128 KiB."""
    board = Cluster(machine("dgx-b200"))
    times = [found(board, "all_reduce", n * GiB // 2)["nvls/simple"].time_s for n in (1, 2, 8, 16)]
    rates_GBps = [GiB * n / (more - less) / 1e9 for n, less, more in ((0.5, *times[:2]), (4, *times[2:]))]
    assert rates_GBps == pytest.approx([424, 486], rel=0.06)


def test_a_hop_over_nvlink_takes_blackwell_longer() -> None:
    """With LL and LL128, as on eight B200 and eight GB200 (25 us for 1 KiB, 15 us on eight H100)."""
    latencies = [
        found(Cluster(machine(name)), "all_reduce", 1 << 10)["ring/ll"].latency_s for name in ("dgx-h100", "dgx-b200")
    ]
    assert latencies == pytest.approx([6.6e-6 + 14 * 0.6e-6, 6.6e-6 + 14 * 1.36e-6])


@pytest.mark.parametrize(
    ("MiB", "picked"), [(8, "tree/simple"), (64, "tree/simple"), (256, "tree/simple"), (512, "ring/simple")]
)
def test_rccl_picks_by_its_own_corrections(MiB: int, picked: str) -> None:
    """Two machines of eight MI300X: RCCL expects a tenth of a ring's bandwidth below 512 MiB."""
    cluster = Cluster(machine("mi300x8"), 2, FABRICS["roce"])
    pick = tuning.pick(cluster, find_graphs(cluster), "all_reduce", MiB << 20)
    assert pick is not None and f"{pick.algorithm}/{pick.protocol}" == picked
    assert found(cluster, "all_reduce", MiB << 20)[picked].time_s < 8e-6 * MiB + 250e-6
