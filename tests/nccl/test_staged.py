"""GPUs without peer access, whose data are staged in the host's memory."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from ringtree.machines.clusters import Cluster
from ringtree.machines.machine import DeviceKind, LinkKind, Machine
from ringtree.nccl import transport
from ringtree.nccl.graphs import graphs
from ringtree.nccl.transport.figures import HOST_ONE_WAY, HOST_TWO_WAYS, HOST_BLOCK_GBps
from tests.nccl.by_hand import Maker

GiB = 1 << 30
GEN3_GBps = 12.0
"""NCCL's figure for x16 of PCIe Gen3."""


def server(gpus: int, below_one_switch: bool, generation: int = 3, p2p: str = "0", intels: int = 0) -> Machine:
    """GPUs on slots of the CPUs in turn (one of AMD's, or several of Intel's), or all below one switch of the first."""
    m = Maker()
    maker = ("intel", "Skylake") if intels else ("amd", "EPYC")
    cpus = [m.add(DeviceKind.CPU, f"cpu{n}", vendor=maker[0], model=maker[1]) for n in range(intels or 1)]
    for a, b in pairwise(cpus):
        m.join(a, b, LinkKind.CPU, 64e9)
    above = cpus
    if below_one_switch:
        above = [m.add(DeviceKind.PCI, "pci0")]
        m.pcie(cpus[0], above[0], generation)
    for n in range(gpus):
        gpu = m.add(DeviceKind.GPU, f"gpu{n}", vendor="nvidia", model="card", sm=86, attributes={"p2p": p2p})
        m.pcie(above[n % len(above)], gpu, generation)
    return m.machine("server")


def ring_GBps(machine: Machine, collective: str) -> tuple[float, str]:
    """Bus bandwidth at length, as the limit, and the bottleneck."""
    cluster = Cluster(machine)
    ring = next(
        e
        for e in transport.estimates(cluster, graphs(cluster), collective, 4 * GiB)
        if (e.algorithm, e.protocol) == ("ring", "simple")
    )
    n = cluster.ranks
    factor = {"all_reduce": 2 * (n - 1) / n, "all_gather": (n - 1) / n}.get(collective, 1.0)
    return ring.bandwidth_Bps / 1e9 * factor, ring.bottleneck


def test_gpus_below_one_switch_share_its_link_to_the_host() -> None:
    apart, words = ring_GBps(server(2, below_one_switch=False), "all_reduce")
    below, _ = ring_GBps(server(2, below_one_switch=True), "all_reduce")
    assert apart == pytest.approx(GEN3_GBps * HOST_TWO_WAYS)
    assert below == pytest.approx(GEN3_GBps * HOST_ONE_WAY / 2)
    assert words == "PCIe: through the host's memory, GPUs without P2P"


def test_with_peer_access_data_stay_below_the_switch() -> None:
    direct, words = ring_GBps(server(2, below_one_switch=True, p2p="1"), "all_reduce")
    assert direct > 0.8 * GEN3_GBps and words.startswith("PCIe: a switch")


def test_a_broadcast_to_one_other_loads_each_link_one_way() -> None:
    for below_one_switch in (False, True):
        GBps, _ = ring_GBps(server(2, below_one_switch), "broadcast")
        assert GBps == pytest.approx(GEN3_GBps * HOST_ONE_WAY)


def test_few_blocks_are_slower_than_fast_slots() -> None:
    GBps, words = ring_GBps(server(4, below_one_switch=False, generation=5), "all_reduce")
    blocks = int(words.split("P2P: ")[1].split()[0])
    assert words.startswith("copying through the host's memory") and GBps == pytest.approx(blocks * HOST_BLOCK_GBps)


def test_another_socket_is_behind_the_cpu_link() -> None:
    GBps, words = ring_GBps(server(4, below_one_switch=False, generation=4, intels=2), "all_gather")
    assert words == "CPU link: through the host's memory, GPUs without P2P"
    assert GBps == pytest.approx(10.0), "NCCL's figure for two Skylakes"


def test_ll_costs_the_links_twice() -> None:
    cluster = Cluster(server(2, below_one_switch=True))
    both = {e.protocol: e.bandwidth_Bps for e in transport.estimates(cluster, graphs(cluster), "all_reduce", GiB)
            if e.algorithm == "ring"}  # fmt: skip
    assert both["ll"] == pytest.approx(both["simple"] / 2)


def test_sends_and_receives_pass_the_host_too() -> None:
    times = []
    for p2p in "01":
        cluster = Cluster(server(2, below_one_switch=True, p2p=p2p))
        times += [transport.estimates(cluster, graphs(cluster), "all_to_all", 4 * GiB)[0].time_s]
    assert times[0] == pytest.approx(2 * times[1], rel=0.05)


def test_a_machine_without_a_cpu_has_direct_paths() -> None:
    whole = server(2, below_one_switch=True)
    kept = [n for n, d in enumerate(whole.devices) if d.kind is not DeviceKind.CPU]
    GBps, _ = ring_GBps(replace(whole.of_devices(kept), name="no CPU"), "all_reduce")
    assert GBps > 0
