"""Releases of NCCL: how they are read, which algorithms and channels each has, and logs of them explained."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ringtree.machines.catalogue import machine
from ringtree.machines.clusters import Cluster
from ringtree.nccl.cluster_plan import ClusterPlan
from ringtree.nccl.explain import Diagnosis, explain
from ringtree.nccl.files.debug_log import Debug
from ringtree.nccl.files.measured_rows import NcclTestsRow
from ringtree.nccl.files.nccl_tests import Log
from ringtree.nccl.graphs import graphs as find_graphs
from ringtree.nccl.releases import named_as_modelled, of_number, release
from ringtree.nccl.transport.peer_channels import PeerChannels, peer_channels
from ringtree.nccl.tuning.communicator import NcclCommunicator
from ringtree.topology.fabrics import FABRICS

MiB, GiB = 1 << 20, 1 << 30
B200S = Cluster(machine("dgx-b200"), 2, FABRICS["infiniband"])
SIZES = (1 << 17, 1 << 22, 1 << 24, 1 << 26, 1 << 28, 1 << 30)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("2.27", (2, 27)), ("2.27.7", (2, 27)), ("2.18.5+cuda12.2", (2, 18)), ("2.29.2-1", (2, 29)), ("2.4.8", (2, 4))],
)
def test_a_release_is_read(text: str, expected: tuple[int, int]) -> None:
    assert release(text) == expected


@pytest.mark.parametrize("text", ["", "2", "v2.27", "2.27.7.1", "2.3", "1.3.4", "3.0", "22707", "2.27 ", "-2.27"])
def test_what_is_no_release_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected (a release such as|2\.4 or later, of 2)"):
        release(text)


def test_a_later_release_is_taken_for_the_models() -> None:
    assert named_as_modelled((2, 31)) == "NCCL 2.31, taken for 2.30" and named_as_modelled((2, 30)) == "NCCL 2.30"


def test_an_algorithm_that_a_release_lacks_is_its_lack() -> None:
    plan = ClusterPlan(replace(B200S, nccl=(2, 17)), algorithm="nvls_tree")
    with pytest.raises(ValueError, match=r"^NCCL 2\.17 has no nvls_tree; expected 2\.18 or later$"):
        plan.row("all_reduce", GiB)


@pytest.mark.parametrize(
    ("number", "expected"), [(22707, (2, 27)), (22903, (2, 29)), (2804, (2, 8)), (2408, (2, 4)), (1304, None)]
)
def test_a_release_by_its_number(number: int, expected: tuple[int, int] | None) -> None:
    assert of_number(number) == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("# nccl-tests version 2.17.6 nccl-headers=22903 nccl-library=22807", (2, 28)),
        ("NCCL version 2.18.5+cuda12.2", (2, 18)),
        ("a:1:1 [0] NCCL INFO NCCL version 2.8.4+cuda11.1", (2, 8)),
        ("RCCL version 2.22.3+hip6.3 HEAD:1234567", None),
        ("a:1:1 [0] NCCL INFO NET/Plugin: Loaded net plugin version 2.27", None),
    ],
)
def test_a_log_names_its_release(line: str, expected: tuple[int, int] | None) -> None:
    debug = Debug()
    debug.read(line, 1)
    assert debug.release == expected


@pytest.mark.parametrize(
    ("name", "nodes", "gpus", "collective", "algorithm", "first"),
    [
        ("dgx-h100", 1, 8, "all_reduce", "nvls", (2, 17)),
        ("dgx-h100", 2, 8, "all_reduce", "nvls_tree", (2, 18)),
        ("dgx-h100", 2, 1, "all_gather", "pat", (2, 23)),
    ],
)
def test_earlier_releases_lack_an_algorithm(
    name: str, nodes: int, gpus: int, collective: str, algorithm: str, first: tuple[int, int]
) -> None:
    cluster = Cluster(machine(name).part(range(gpus)), nodes, FABRICS["infiniband"] if nodes > 1 else None)

    def has(nccl: tuple[int, int] | None) -> bool:
        found, _ = ClusterPlan(replace(cluster, nccl=nccl)).candidates(collective, GiB)
        return algorithm in {e.algorithm for e in found}

    assert has(None) and has(first) and not has((first[0], first[1] - 1))


@pytest.mark.parametrize(
    ("name", "fabric", "nodes", "nccl", "each"),
    [
        ("dgx-h100", "infiniband", 2, (2, 19), 2),
        ("dgx-h100", "infiniband", 2, (2, 28), 2),
        ("dgx-h100", "infiniband", 2, (2, 29), 4),
        ("dgx-h100", "infiniband", 64, (2, 19), 2),
        ("dgx-h100", "infiniband", 64, (2, 28), 1),
        ("aws-p5", "efa", 2, (2, 19), 2),
        ("aws-p5", "efa", 2, (2, 28), 4),
    ],
)
def test_the_channels_of_a_peer_by_release(
    name: str, fabric: str, nodes: int, nccl: tuple[int, int], each: int
) -> None:
    cluster = Cluster(machine(name), nodes, FABRICS[fabric], nccl=nccl)
    found = peer_channels(NcclCommunicator(cluster, find_graphs(cluster)), "send_recv", 16 * MiB)
    assert found == PeerChannels(each, each, each)


def exchanged(cluster: Cluster, debug: Debug) -> Log:
    """The model's times of all_to_all."""
    plan = ClusterPlan(cluster)
    rows = [
        NcclTestsRow(n, n // 64, "float", "none", -1, (plan.candidates("all_to_all", n)[1].time_s,), 0, 0, 0, line)
        for line, n in enumerate(SIZES, 1)
    ]
    return Log(Path("any"), "all_to_all", cluster.ranks, tuple(rows), debug=debug)


def test_few_channels_of_a_peer_are_a_candidate_where_no_release_is_known() -> None:
    debug = Debug()
    debug.read("a:1:1 [0] NCCL INFO NCCL_NCHANNELS_PER_NET_PEER set by environment to 2.", 1)
    cluster = replace(B200S, machine=B200S.machine.part(range(4)))
    log = exchanged(replace(cluster, nccl=(2, 27)), debug)
    found = explain(log, cluster)
    assert [s.fault.key for s in found.suspects] == ["few_channels"] and found.verdict is Diagnosis.CAUSE


def test_an_earlier_release_that_is_known_is_no_fault_and_remarked_on() -> None:
    cluster = replace(B200S, nccl=(2, 27))
    found = explain(exchanged(cluster, Debug()), cluster)
    assert found.verdict is Diagnosis.HEALTHY
    assert "NCCL 2.27: the prediction is 2.0 times as fast at 1 GiB with 2.30 (p2p)" in found.remarks
