"""Intervals of predictions: around every time, from named unknowns, wider where no system was compared."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringtree.machines.catalogue import machine
from ringtree.machines.clusters import Cluster
from ringtree.nccl.cluster_plan import ClusterPlan
from ringtree.nccl.interval import Interval
from ringtree.nccl.interval.classes import GPU_WORDS, WITHIN_WORDS, PredictionClass, class_of
from ringtree.nccl.interval.compared import COMPARED, scale
from ringtree.topology.fabrics import FABRICS

GiB = 1 << 30
CLUSTERS = [
    ("dgx-h100", 1, ""),
    ("dgx-a100", 2, "infiniband"),
    ("dgx-h100", 16, "roce"),
    ("gh200x4", 3, "slingshot"),
    ("aws-p4d", 2, "efa"),
    ("gcp-a3-high", 2, "tcpx"),
    ("gcp-a3-mega", 2, "tcpxo"),
    ("dgx-a100", 2, "tcp"),
    ("mi300x8", 1, ""),
    ("v100-pcie", 1, ""),
    ("rtx4090-pcie", 1, ""),
]
COLLECTIVES = ("all_reduce", "all_gather", "broadcast", "all_to_all")


@cache
def plan(name: str, nodes: int = 1, fabric: str = "") -> ClusterPlan:
    return ClusterPlan(Cluster(machine(name), nodes, FABRICS[fabric] if fabric else None))


def around(of: ClusterPlan, collective: str, nbytes: int) -> Interval:
    row = of.row(collective, nbytes)
    found = of.interval(row, row.pick)
    assert found is not None
    return found


@pytest.mark.parametrize(("name", "nodes", "collective"), [
    ("dgx-h100", 4, "all_to_all"), ("dgx-1-v100", 2, "broadcast"), ("dgx-1-v100", 2, "reduce"),
    ("dgx-b200", 2, "all_reduce"),
])  # fmt: skip
def test_no_interval_begins_below_what_no_schedule_can_beat(name: str, nodes: int, collective: str) -> None:
    there = plan(name, nodes, "infiniband")
    row = there.row(collective, 8 * GiB)
    found = around(there, collective, 8 * GiB)
    assert found.low_s >= row.bound.time_s and found.low_s <= row.pick.time_s <= found.high_s


@given(st.sampled_from(CLUSTERS), st.sampled_from(COLLECTIVES), st.integers(1, 1 << 34))
def test_every_candidate_has_an_interval_around_its_time(
    where: tuple[str, int, str], collective: str, nbytes: int
) -> None:
    there = plan(*where)
    row = there.row(collective, nbytes)
    for estimate in row.candidates:
        found = there.interval(row, estimate)
        assert found is not None
        assert 0 < found.low_s <= estimate.time_s <= found.high_s < 100 * estimate.time_s
        for part in found.parts:
            assert part.low_s <= estimate.time_s <= part.high_s and part.why


def test_an_unknown_matters_where_the_model_uses_it() -> None:
    """The payload limits long messages, a hop's latency short ones."""
    there = plan("dgx-a100", 2, "infiniband")
    short, long = ({p.key for p in around(there, "all_reduce", n).parts} for n in (8, 16 * GiB))
    assert "payload" in long - short
    assert "fabric_latency" in short
    sent, within = (around(plan(*where), "all_to_all", GiB) for where in (("dgx-a100", 2, "infiniband"), ("dgx-a100",)))
    assert "links" in {p.key for p in within.parts} - {p.key for p in sent.parts}
    assert "payload" not in {p.key for p in around(plan("dgx-a100"), "all_reduce", 16 * GiB).parts}


def test_parts_are_the_models_own_times() -> None:
    """The payload's lower end is what the model has for a fabric with that payload."""
    there = plan("dgx-a100", 2, "infiniband")
    part = next(p for p in around(there, "all_gather", 16 * GiB).parts if p.key == "payload")
    fabric = FABRICS["infiniband"]
    less = replace(there.cluster, fabric=replace(fabric, payload=fabric.payload * 0.95))
    assert part.high_s == pytest.approx(ClusterPlan(less).row("all_gather", 16 * GiB).pick.time_s, rel=1e-6)


def test_candidates_that_nccl_estimates_alike_are_an_unknown() -> None:
    """Where another protocol takes over, the pick's interval holds both times, and a forced one's does not."""
    there = plan("dgx-h100", 2, "infiniband")
    wide = 0
    for nbytes in (1 << k for k in range(12, 28)):
        row = there.row("all_reduce", nbytes)
        parts = {p.key: p for p in around(there, "all_reduce", nbytes).parts}
        if "pick" in parts:
            wide += 1
            forced = ClusterPlan(there.cluster, algorithm=row.pick.algorithm, protocol=row.pick.protocol)
            assert "pick" not in {p.key for p in around(forced, "all_reduce", nbytes).parts}
    assert wide > 3


def test_a_class_that_was_never_compared_is_wider() -> None:
    known = PredictionClass("Hopper", "nvlink", "infiniband", "all_reduce")
    never = PredictionClass("Hopper", "nvlink", "efa", "broadcast")
    assert scale(known).alike and not scale(never).alike
    assert scale(never).factor > scale(known).factor
    assert not scale(replace(known, gpus="Ampere")).alike
    there = plan("dgx-h100", 2, "infiniband")
    assert class_of(there.cluster, there.graphs, "all_reduce") == known


def test_a_system_does_not_set_its_own_width() -> None:
    for compared in COMPARED:
        assert compared.system not in scale(compared.of, without=[compared.system]).systems
        assert compared.system in scale(compared.of).systems


@pytest.mark.parametrize(
    ("name", "gpus", "within"),
    [
        *(("dgx-h100", "Hopper", "nvlink"), ("dgx-1-v100", "Volta", "nvlink"), ("dgx-b200", "Blackwell", "nvlink")),
        *(("mi300x8", "AMD", "xgmi"), ("rtx4090-pcie", "Ampere", "host"), ("v100-pcie", "Volta", "pcie")),
    ],
)
def test_classes_are_by_generation_and_what_joins_the_gpus(name: str, gpus: str, within: str) -> None:
    there = plan(name)
    assert class_of(there.cluster, there.graphs, "all_reduce") == PredictionClass(gpus, within, "", "all_reduce")


def test_every_class_has_plain_words() -> None:
    words = {
        str(PredictionClass(gpus, within, "roce", "reduce")) for gpus in GPU_WORDS for within in (*WITHIN_WORDS, "one")
    }
    assert len(words) == len(GPU_WORDS) * (len(WITHIN_WORDS) + 1)
    assert str(PredictionClass("unknown", "one", "roce", "reduce")) == (
        "reduce of GPUs of unknown generation, one a node, over roce"
    )
    there = plan("ascend-910b-x8")
    assert class_of(there.cluster, there.graphs, "all_reduce").gpus == "unknown"


def test_without_peer_to_peer_the_host_decides_and_nobody_knows_how_much() -> None:
    by_host, by_nvlink = (around(plan(name), "all_reduce", GiB) for name in ("rtx4090-pcie", "dgx-a100"))
    assert "links" in {p.key for p in by_host.parts}
    assert by_host.high_s / by_host.low_s > 1.5 * by_nvlink.high_s / by_nvlink.low_s


def test_more_machines_than_were_compared_are_an_unknown() -> None:
    few, many = ({p.key for p in around(plan("dgx-h100", n, "infiniband"), "all_reduce", GiB).parts} for n in (4, 64))
    assert "size" in many - few


def test_nccls_own_estimate_has_no_interval() -> None:
    there = ClusterPlan(Cluster(machine("dgx-a100")), "nccl")
    row = there.row("all_reduce", GiB)
    assert there.interval(row, row.pick) is None


def test_an_interval_over_efa_holds_what_other_releases_of_the_plugin_reach() -> None:
    """Published: two p4d with NCCL 2.9 take 1.9 times as long as two p4de."""
    there = plan("aws-p4d", 2, "efa")
    found = around(there, "all_reduce", GiB)
    assert found.parts[0].key == "payload"
    assert found.high_s > 1.85 * there.row("all_reduce", GiB).pick.time_s
