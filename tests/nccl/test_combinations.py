"""Machines of the catalogue with fewer GPUs, other NICs and other fabrics: a plan stays within three times the lower
bound, or gives the rule that keeps data from the links."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from ringtree.machines import catalogue
from ringtree.machines.clusters import Cluster
from ringtree.machines.machine import Machine
from ringtree.machines.nics import usual_fabric, with_nics
from ringtree.nccl.cluster_plan import ClusterPlan
from ringtree.nccl.shortfall import FAR
from ringtree.topology.fabrics import FABRICS

NBYTES = 1 << 30
GIGABIT_Bps = 1e9 / 8
OWN = (0, 0.0)
NICS = (OWN, (1, 200.0), (2, 100.0), (3, 400.0), (8, 400.0))
"""How many, of how many Gb/s."""
LARGE = {"dgx-h100-superpod": (1, 8), "gb200-nvl72": (1, 4, 8)}
"""GPUs of the machines whose search takes minutes with all."""
MACHINES = [name for name in catalogue.NAMES if catalogue.machine(name).gpus]
SAMPLED = 2


class Combination(NamedTuple):
    """`--gpus`, `--nics`, `--fabric` and `--nodes` of a command line; fabric "": the NICs' own."""

    gpus: int
    nics: tuple[int, float]
    fabric: str
    nodes: int


def combinations(name: str) -> Iterator[Combination]:
    there = len(catalogue.machine(name).gpus)
    numbers = LARGE.get(name, tuple(sorted({1, 2, 3, there // 2, there})))
    for gpus in numbers:
        if gpus > 1:
            yield Combination(gpus, OWN, "", 1)
        for nics in NICS:
            yield from (Combination(gpus, nics, "", nodes) for nodes in (2, 4))
        for fabric in FABRICS:
            yield from (Combination(gpus, nics, fabric, 2) for nics in (OWN, NICS[-1]))


def machine(name: str, of: Combination) -> Machine:
    part = catalogue.machine(name).part(range(of.gpus))
    return part if of.nics == OWN else with_nics(part, of.nics[0], of.nics[1] * GIGABIT_Bps)


def explained(name: str, of: Combination) -> str:
    """What is wrong with the plan; empty where nothing is."""
    there = machine(name, of)
    plan = ClusterPlan(Cluster(there, of.nodes, FABRICS[of.fabric or str(usual_fabric(there))]))
    row = plan.row("all_reduce", NBYTES)
    share, pick = row.bound_fraction(row.pick), row.pick
    if FAR <= share <= 1 or (share < FAR and plan.shortfall(row)):
        return ""
    return f"{name}, {of}: {share:.2f} of the bound, {row.bound.bottleneck}; {pick.algorithm}, {pick.bottleneck}"


@pytest.mark.parametrize("name", [name for name in MACHINES if name not in (*LARGE, "mi250x8")])
def test_some_combinations_are_near_the_bound_or_explained(name: str) -> None:
    some = [c for c in combinations(name) if c.gpus <= 4]
    wrong = [explained(name, c) for c in random.Random(name).sample(some, SAMPLED)]
    assert not any(wrong), "\n".join(filter(None, wrong))


@pytest.mark.slow
@pytest.mark.parametrize("name", MACHINES)
def test_all_combinations_are_near_the_bound_or_explained(name: str) -> None:
    wrong = [explained(name, c) for c in combinations(name)]
    assert not any(wrong), "\n".join(filter(None, wrong))


def test_a_gpu_on_c2c_reaches_the_nic_that_replaces_its_machines() -> None:
    """The search once began at its lowest speed there, 0.12 GB/s: a GPU's C2C link did not count."""
    row = ClusterPlan(Cluster(machine("gh200x4", Combination(1, (1, 200.0), "", 2)), 2, FABRICS["slingshot"])).row(
        "all_reduce", NBYTES
    )
    assert row.bandwidths_GBps(row.pick)[1] == pytest.approx(22.8, rel=0.01)
