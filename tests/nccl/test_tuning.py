"""NCCL's tuning model against figures worked out by hand from its source."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ringtree.machines.catalogue import machine
from ringtree.machines.channels import Channels, Pattern
from ringtree.machines.clusters import Cluster
from ringtree.machines.machine import Device, DeviceKind, Machine, PathKind
from ringtree.machines.nics import as_shown
from ringtree.nccl import tuning
from ringtree.nccl.estimate import Estimate
from ringtree.nccl.tuning.channels import chunk_bytes, tree_chunk_bytes
from ringtree.nccl.tuning.communicator import NcclCommunicator
from ringtree.nccl.tuning.settings import settings
from ringtree.topology.fabrics import FABRICS, Fabric

INFINIBAND = Fabric("infiniband", True, True, 0.97, 2e-6, 0.0, 1e-7, "by hand", sharp=True)


def host(gpus: int = 8, sm: int = 90, nics: int = 8, cpu: str = "GenuineIntel", switch: bool = True) -> Machine:
    """Devices alone: the model looks at channels, not at links."""
    devices = [Device("cpu0", DeviceKind.CPU, cpu)]
    devices += [Device(f"gpu{g}", DeviceKind.GPU, sm=sm) for g in range(gpus)]
    devices += [Device(f"nic{n}", DeviceKind.NIC, rate_Bps=50e9) for n in range(nics)]
    if switch:
        devices.append(Device("switch", DeviceKind.NVSWITCH))
    return Machine("some", tuple(devices), ())


def graph(pattern: Pattern, count: int, intra_GBps: float, inter_GBps: float = 0.0, gpus: int = 8) -> Channels:
    order = tuple(range(gpus))
    return Channels(
        pattern, (order,) * count, (), intra_GBps * 1e9, inter_GBps * 1e9, PathKind.NVL, PathKind.PIX, 0.0, 0, True
    )


HOPPER = {
    Pattern.RING: graph(Pattern.RING, 12, 30),
    Pattern.BALANCED_TREE: graph(Pattern.BALANCED_TREE, 12, 30),
    Pattern.NVLS: graph(Pattern.NVLS, 8, 40),
}
HOPPERS = {
    Pattern.RING: graph(Pattern.RING, 8, 45, 45),
    Pattern.BALANCED_TREE: graph(Pattern.BALANCED_TREE, 8, 45, 45),
    Pattern.NVLS: graph(Pattern.NVLS, 8, 45, 45),
    Pattern.COLLNET_CHAIN: graph(Pattern.COLLNET_CHAIN, 8, 45, 45),
    Pattern.COLLNET_DIRECT: graph(Pattern.COLLNET_DIRECT, 8, 45, 45),
}
ONE = Cluster(host())
TWO = Cluster(host(), 2, INFINIBAND)
FOUR = Cluster(host(), 4, INFINIBAND)


def priced(cluster: Cluster, graphs: dict[Pattern, Channels], collective: str, nbytes: int) -> dict[str, Estimate]:
    return {f"{e.algorithm}/{e.protocol}": e for e in tuning.estimates(cluster, graphs, collective, nbytes)}


LATENCY_AND_BANDWIDTH = [
    (ONE, HOPPER, "all_reduce", "ring/ll", 6.6 + 14 * 0.6, 141 * 8 / 14),
    (ONE, HOPPER, "all_reduce", "ring/ll128", 14 + 14 * 1.9, 360 * 0.92 * 8 / 14),
    (ONE, HOPPER, "all_reduce", "ring/simple", 8.4 + 14 * 3.4, 360 * 8 / 14),
    (ONE, HOPPER, "all_reduce", "tree/ll", 6.8 + 14 * 0.6, 360 * 0.92 / 3.8 / 2),
    (ONE, HOPPER, "all_reduce", "tree/ll128", 14 + 14 * 1.25, 360 * 0.92 * 7 / 9 / 2),
    (ONE, HOPPER, "all_reduce", "tree/simple", 8.4 + 14 * 4.0, 360 * 0.92 / 2),
    (ONE, HOPPER, "all_reduce", "nvls/simple", 25, 8 * 40 * 0.85 * 7 / 8 * 2 * 8 / 14),
    (ONE, HOPPER, "all_gather", "ring/simple", 8.4 + 7 * 3.4, 360 * 8 / 7),
    (ONE, HOPPER, "reduce_scatter", "nvls/simple", 25, 8 * 40 * 0.85 * 7 / 8 * 7 / 8),
    (ONE, HOPPER, "broadcast", "ring/ll128", 14 + 1.9, 360 * 0.92),
    (ONE, HOPPER, "reduce", "ring/simple", 8.4 + 3.4, 360),
    (TWO, HOPPERS, "all_reduce", "tree/simple", 8.4 + 2 * (7 * 4 + 14), min(360 * 0.92, 8 * 41.4) / 2),
    (TWO, HOPPERS, "all_reduce", "nvls_tree/simple", 25 + 2 * 20.9, 8 * min(45 * 0.85 * 7 / 8 * 2, 57.7) * 16 / 30),
    (FOUR, HOPPERS, "all_reduce", "ring/simple", (8.4 + (62 - 6) * 3.4 + 6 * 14) * 1.4, 360 * 32 / 62),
    (FOUR, HOPPERS, "all_reduce", "ring/ll", 6.6 + (62 - 6) * 1.0 + 6 * 2.7, 20.4 * 32 / 62),
    (FOUR, HOPPERS, "all_reduce", "nvls_tree/simple", 25 + 4 * 20.9, 8 * 45 * 32 / 62),
    (FOUR, HOPPERS, "all_gather", "ring/ll128", 14 + (31 - 3) * 1.9 + 3 * 4, 8 * 36.7 * 32 / 31),
]


@pytest.mark.parametrize(("cluster", "graphs", "collective", "which", "latency_us", "GBps"), LATENCY_AND_BANDWIDTH)
def test_latency_and_bandwidth_are_the_sources(
    cluster: Cluster, graphs: dict[Pattern, Channels], collective: str, which: str, latency_us: float, GBps: float
) -> None:
    nbytes = 1 << 30
    found = priced(cluster, graphs, collective, nbytes)[which]
    assert found.latency_s == pytest.approx(latency_us * 1e-6)
    assert found.bandwidth_Bps == pytest.approx(GBps * 1e9)
    assert found.time_s == pytest.approx(latency_us * 1e-6 + nbytes / (GBps * 1e9))


def test_a_tree_has_less_in_the_middle() -> None:
    found = priced(ONE, HOPPER, "all_reduce", 1 << 20)["tree/simple"]
    assert found.time_s - found.latency_s == pytest.approx((1 << 20) / (found.bandwidth_Bps * 0.5))


CONSIDERED = [
    (ONE, HOPPER, "all_reduce", {"ring", "tree", "nvls"}),
    (TWO, HOPPERS, "all_reduce", {"ring", "tree", "nvls_tree"}),
    (replace(TWO, sharp=True), HOPPERS, "all_reduce",
     {"ring", "tree", "nvls", "nvls_tree", "collnet_chain", "collnet_direct"}),
    (TWO, HOPPERS, "all_gather", {"ring"}),
    (replace(TWO, sharp=True), HOPPERS, "all_gather", {"ring", "nvls", "collnet_direct"}),
    (replace(TWO, machine=host(nics=4), sharp=True), HOPPERS, "all_gather", {"ring"}),
    (replace(TWO, machine=host(gpus=1)), HOPPERS, "reduce_scatter", {"ring", "pat"}),
    (TWO, HOPPERS, "broadcast", {"ring"}),
    (Cluster(host(sm=80)), HOPPER, "all_reduce", {"ring", "tree"}),
    (Cluster(host(switch=False)), HOPPER, "all_reduce", {"ring", "tree"}),
    (Cluster(host(gpus=72, sm=100)), HOPPER, "all_gather", {"ring"}),
    (ONE, HOPPER, "all_to_all", set()),
]  # fmt: skip


@pytest.mark.parametrize(("cluster", "graphs", "collective", "expected"), CONSIDERED)
def test_candidates_by_machine(
    cluster: Cluster, graphs: dict[Pattern, Channels], collective: str, expected: set[str]
) -> None:
    assert {e.algorithm for e in tuning.estimates(cluster, graphs, collective, 1 << 20)} == expected


def test_ll128_needs_near_links() -> None:
    """Over PXN only from Hopper on; between GPUs not over PCIe."""
    relayed = {p: replace(g, inter=PathKind.PXN) for p, g in HOPPERS.items()}
    older = replace(TWO, machine=host(sm=80))
    apart = {p: replace(g, intra=PathKind.PIX) for p, g in HOPPER.items()}
    assert "ring/ll128" in priced(TWO, relayed, "all_reduce", 1 << 20)
    assert "ring/ll128" not in priced(older, relayed, "all_reduce", 1 << 20)
    assert "ring/ll128" in priced(older, HOPPERS, "all_reduce", 1 << 20)
    assert "ring/ll128" not in priced(ONE, apart, "all_reduce", 1 << 20)


CHANNELS = [
    (ONE, HOPPER, "ring/simple", 1 << 30, 24),
    (ONE, HOPPER, "ring/simple", 1 << 18, 8),
    (ONE, HOPPER, "ring/ll", 1 << 16, 2),
    (ONE, HOPPER, "tree/ll128", 8, 1),
    (ONE, HOPPER, "nvls/simple", 1 << 30, 16),
    (ONE, HOPPER, "nvls/simple", 1 << 16, 4),
    (FOUR, HOPPERS, "ring/simple", 1 << 30, 16),
    (FOUR, {p: graph(p, 4, 60, 48) for p in (Pattern.RING, Pattern.BALANCED_TREE)}, "ring/simple", 1 << 30, 16),
    (Cluster(host(sm=100)), HOPPER, "nvls/simple", 1 << 30, 24),
]


@pytest.mark.parametrize(("cluster", "graphs", "which", "nbytes", "expected"), CHANNELS)
def test_channels_are_few_while_the_size_is_small(
    cluster: Cluster, graphs: dict[Pattern, Channels], which: str, nbytes: int, expected: int
) -> None:
    assert priced(cluster, graphs, "all_reduce", nbytes)[which].channels == expected


def test_the_pick_is_the_fastest_and_latency_comes_first() -> None:
    small = tuning.pick(ONE, HOPPER, "all_reduce", 1 << 10)
    large = tuning.pick(ONE, HOPPER, "all_reduce", 1 << 30)
    assert small is not None and large is not None
    assert (small.algorithm, small.protocol) == ("ring", "ll")
    assert (large.algorithm, large.protocol) == ("nvls", "simple")
    assert small.bottleneck.startswith("latency") and large.bottleneck.startswith("nvls")
    assert tuning.pick(ONE, HOPPER, "all_to_all", 1 << 10) is None


CHUNKS_KiB = [
    (90, 2, 8, 50.0, True, 128),
    (90, 4, 8, 50.0, True, 64),
    (100, 2, 8, 50.0, True, 64),
    (100, 2, 8, 50.0, False, 128),
    (100, 2, 4, 50.0, True, 256),
    (100, 8, 8, 50.0, False, 128),
    (100, 8, 8, 100.0, True, 256),
    (100, 8, 8, 25.0, True, 64),
]


@pytest.mark.parametrize(("sm", "nodes", "per_node", "nic_GBps", "near", "expected"), CHUNKS_KiB)
def test_a_switchs_chunks_are_by_generation_nodes_and_nics(
    sm: int, nodes: int, per_node: int, nic_GBps: float, near: bool, expected: int
) -> None:
    assert tree_chunk_bytes(sm, nodes, per_node, nic_GBps, near) == expected << 10


@pytest.mark.parametrize(("nbytes", "expected"), [(1 << 30, 128), (1 << 29, 64), (1 << 25, 32), (1 << 22, 16)])
def test_chunks_are_short_while_there_are_few(nbytes: int, expected: int) -> None:
    assert chunk_bytes(NcclCommunicator(ONE, HOPPER), "nvls", 8, nbytes) == expected << 10


def test_a_fabrics_plugin_leaves_protocols_out_and_has_its_latency() -> None:
    def on(name: str, sm: int) -> dict[str, Estimate]:
        return priced(Cluster(host(sm=sm), 2, replace(INFINIBAND, name=name)), HOPPERS, "all_reduce", 1 << 10)

    assert {e.split("/")[1] for e in on("efa", 80)} == {"simple"}
    assert "tree/ll128" in on("efa", 90)
    assert {e.split("/")[1] for e in on("tcpxo", 90)} == {"simple", "ll128"}
    assert set(on("tcpx", 90)) == {"ring/simple"}
    difference_s = on("efa", 90)["tree/ll"].latency_s - on("infiniband", 90)["tree/ll"].latency_s
    assert difference_s == pytest.approx(2 * 35e-6)


@pytest.mark.parametrize(
    ("name", "latency_us"),
    [("aws-p5", 75), ("aws-p5e", 75), ("aws-p5en", 35), ("aws-p6-b200", 35), ("aws-p6-b300", 35)],
)
def test_the_plugin_reports_the_latency_of_its_table_of_instances(name: str, latency_us: float) -> None:
    """aws-ofi-nccl 2daf7d3, src/platform-aws.cpp. NICs of 100 Gb/s that are shown as one of 400 are not newer ones."""
    cluster = as_shown(Cluster(machine(name), 2, FABRICS["efa"]))
    assert settings(cluster, 90).latency_us == latency_us
