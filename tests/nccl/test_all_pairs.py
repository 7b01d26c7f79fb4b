"""RCCL's own program for short sums."""

from __future__ import annotations

import pytest

from ringtree.machines.catalogue import machine
from ringtree.machines.clusters import Cluster
from ringtree.machines.machine import Machine
from ringtree.nccl.cluster_plan import ClusterPlan
from ringtree.nccl.files import tuner_csv
from ringtree.topology.fabrics import FABRICS

KiB, MiB = 1 << 10, 1 << 20
EIGHT = machine("mi300x8")


@pytest.mark.parametrize(
    ("nbytes", "protocol", "measured_us"),
    [
        (KiB, "ll", 13.7),
        (64 * KiB, "ll", 14.2),
        (256 * KiB, "ll", 17.5),
        (MiB, "simple", 28.4),
        (2 * MiB, "simple", 36.7),
    ],
)
def test_short_sums_take_two_hops(nbytes: int, protocol: str, measured_us: float) -> None:
    """Beside eight MI300X with a process each (rccl-tests, out of place)."""
    pick = ClusterPlan(Cluster(EIGHT)).row("all_reduce", nbytes).pick
    assert (pick.algorithm, pick.protocol) == ("all_pairs", protocol)
    assert pick.time_s * 1e6 == pytest.approx(measured_us, rel=0.15)


@pytest.mark.parametrize(
    ("known", "nodes", "collective", "nbytes"),
    [
        (EIGHT, 1, "all_reduce", 16 * MiB + 1),
        (EIGHT, 1, "all_gather", KiB),
        (EIGHT, 2, "all_reduce", KiB),
        (EIGHT.part(range(4)), 1, "all_reduce", KiB),
        (machine("mi250x8"), 1, "all_reduce", KiB),
        (machine("dgx-h100"), 1, "all_reduce", KiB),
    ],
)
def test_nothing_else_has_the_program(known: Machine, nodes: int, collective: str, nbytes: int) -> None:
    row = ClusterPlan(Cluster(known, nodes, FABRICS["roce"] if nodes > 1 else None)).row(collective, nbytes)
    assert all(e.algorithm != "all_pairs" for e in (*row.candidates, *row.theirs))


def test_a_tuner_says_nothing_where_rccl_plays_its_program() -> None:
    choices = [tuner_csv.TunerChoice(KiB, "all_pairs", "ll"), tuner_csv.TunerChoice(64 * MiB, "ring", "simple")]
    (row,) = tuner_csv.rows("all_reduce", choices)
    assert row.algorithm == "ring" and row.min_bytes > KiB
