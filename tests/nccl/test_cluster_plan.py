"""Plans for clusters: no candidate beats the bound, and the hardware's limits hold."""

from dataclasses import replace
from math import inf

import pytest

from ringtree.machines import catalogue
from ringtree.machines.clusters import Cluster
from ringtree.machines.files.reading import find
from ringtree.machines.nics import usual_fabric
from ringtree.nccl.cluster_plan import ClusterPlan
from ringtree.topology.fabrics import FABRICS

COLLECTIVES = (
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "broadcast",
    "reduce",
    "all_to_all",
    "gather",
    "scatter",
    "send_recv",
)
QUICK = ("dgx-1-v100", "dgx-a100", "dgx-h100", "dgx-b200", "gh200x4", "v100-pcie", "dcu-z100x4", "gcp-a3-high")


def plan(name: str, nodes: int) -> ClusterPlan:
    machine = catalogue.machine(name)
    return ClusterPlan(Cluster(machine, nodes, FABRICS[str(usual_fabric(machine))]))


MACHINES = [
    pytest.param(name, marks=[] if name in QUICK else [pytest.mark.slow])
    for name in catalogue.NAMES
    if catalogue.machine(name).gpus
]


@pytest.mark.parametrize("nodes", [1, pytest.param(2, marks=pytest.mark.slow), 4])
@pytest.mark.parametrize("name", MACHINES)
def test_nothing_is_quicker_than_the_bound(name: str, nodes: int) -> None:
    there = plan(name, nodes)
    for collective in COLLECTIVES:
        for nbytes in (8, 1 << 32):
            row = there.row(collective, nbytes)
            for candidate in row.candidates:
                assert row.bound_fraction(candidate) <= 1, (collective, nbytes, candidate, row.bound)


def test_switches_that_add_leave_room_above_a_ring() -> None:
    """NVLink SHARP's bound is that of one pass; a ring's two are not the best possible there."""
    row = plan("dgx-h100", 1).row("all_reduce", 1 << 30)
    ring = next(c for c in row.candidates if (c.algorithm, c.protocol) == ("ring", "simple"))
    assert row.pick.algorithm == "nvls"
    assert row.bound_fraction(ring) < row.bound_fraction(row.pick) < 0.8


def test_switches_of_the_network_that_add_leave_room_too() -> None:
    """On SHARP's switches a vector passes each NIC once each way; without them nearly twice."""
    cluster = plan("dgx-h100", 4).cluster
    one, other = (
        ClusterPlan(replace(cluster, sharp=sharp)).row("all_reduce", 1 << 33).bound for sharp in (True, False)
    )
    assert other.time_s / one.time_s == pytest.approx(2 * 3 / 4, rel=0.02)


@pytest.mark.parametrize(("time_s", "named"), [(0.9, True), (0.97, False)])
def test_a_candidate_is_named_where_it_is_worth_a_variable(time_s: float, named: bool) -> None:
    row = plan("dgx-h100", 1).row("all_reduce", 1 << 20)
    pick = replace(row.pick, time_s=1.0)
    best = replace(pick, time_s=time_s)
    assert (replace(row, candidates=(best, pick), pick=pick).quicker is best) is named


def test_more_sockets_are_possible_so_that_the_bound_is_of_wires() -> None:
    cluster = plan("dgx-a100", 2).cluster
    slow, none = (replace(FABRICS["tcp"], core_Bps=Bps) for Bps in (1e8, inf))
    one, other = (ClusterPlan(replace(cluster, fabric=f)).row("all_gather", 1 << 30).bound for f in (slow, none))
    assert one == other


@pytest.mark.parametrize(("nbytes", "is_latency"), [(8, True), (4096, True), (1 << 28, False)])
def test_a_time_that_no_bytes_take_is_latency(nbytes: int, is_latency: bool) -> None:
    """The heads of a rack's NVLS are posted whatever the size."""
    pick = ClusterPlan(Cluster(find("gb200-nvl72"))).row("all_reduce", nbytes).pick
    assert pick.algorithm == "nvls" and pick.bottleneck.startswith("latency") == is_latency


@pytest.mark.parametrize(("vendors", "error"), [
    (("nvidia", "nvidia", "amd"), r"gpu0 \(NCCL\) and gpu2 \(RCCL\) are of libraries .* such as gpu0, gpu1 \(--gpus\)"),
    (("huawei", "amd", "hygon"), r"gpu0 \(HCCL\) and gpu1 \(RCCL\) .* such as gpu1, gpu2 \(--gpus\)"),
    (("amd", "hygon", ""), ""),
    (("nvidia", "", "NVIDIA"), ""),
])  # fmt: skip
def test_gpus_of_several_libraries_are_no_communicator(vendors: tuple[str, ...], error: str) -> None:
    one = catalogue.machine("dgx-h100").part(range(3))
    devices = list(one.devices)
    for gpu, vendor in zip(one.gpus, vendors, strict=True):
        devices[gpu] = replace(devices[gpu], vendor=vendor)
    cluster = Cluster(replace(one, devices=tuple(devices)))
    if not error:
        assert ClusterPlan(cluster).cluster is cluster
        return
    with pytest.raises(ValueError, match=error):
        ClusterPlan(cluster)
