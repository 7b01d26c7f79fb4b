"""Machines of the catalogue with fewer GPUs, other NICs and other fabrics: a plan stays within three times the lower
bound, or gives the rule that keeps data from the links."""

from __future__ import annotations

import random

import pytest

from ringtree.machines import catalogue
from ringtree.machines.clusters import Cluster
from ringtree.machines.nics import usual_fabric
from ringtree.nccl.cluster_plan import ClusterPlan
from ringtree.nccl.shortfall import FAR
from ringtree.topology.fabrics import FABRICS
from tests.nccl.combinations import LARGE, OWN, Combination, combinations, machine, numbers_of_gpus

NBYTES = 1 << 30
MACHINES = [name for name in catalogue.NAMES if catalogue.machine(name).gpus]
SAMPLED = 2


def explained(name: str, of: Combination) -> str:
    """What is wrong with the plan; empty where nothing is."""
    there = machine(name, of)
    plan = ClusterPlan(Cluster(there, of.nodes, FABRICS[of.fabric or str(usual_fabric(there))]))
    row = plan.row("all_reduce", NBYTES)
    share, pick = row.bound_fraction(row.pick), row.pick
    if FAR <= share <= 1 or (share < FAR and plan.shortfall(row)):
        return ""
    return f"{name}, {of}: {share:.2f} of the bound, {row.bound.bottleneck}; {pick.algorithm}, {pick.bottleneck}"


WRONG = {
    "gh200x4": Combination(1, (1, 200.0), "", 2),
    "mi250x8": Combination(2, (3, 400.0), "", 4),
    "ascend-910b-x8": Combination(4, OWN, "", 2),
}
"""Plans that were wrong: 0.12 GB/s, since a GPU's C2C link did not count; and beyond the bound, since a GPU's slot did
not, or Huawei's links counted as AMD's."""


@pytest.mark.parametrize("name", WRONG)
def test_combinations_that_were_wrong(name: str) -> None:
    assert not explained(name, WRONG[name])


@pytest.mark.parametrize("name", [name for name in MACHINES if name not in (*LARGE, "mi250x8")])
def test_some_combinations_are_near_the_bound_or_explained(name: str) -> None:
    some = [c for c in combinations(name) if c.gpus <= 4]
    wrong = [explained(name, c) for c in random.Random(name).sample(some, SAMPLED)]
    assert not any(wrong), "\n".join(filter(None, wrong))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "gpus"), [(name, n) for name in MACHINES for n in numbers_of_gpus(name)])
def test_all_combinations_are_near_the_bound_or_explained(name: str, gpus: int) -> None:
    wrong = [explained(name, c) for c in combinations(name) if c.gpus == gpus]
    assert not any(wrong), "\n".join(filter(None, wrong))


def test_a_gpu_on_c2c_reaches_the_nic_that_replaces_its_machines() -> None:
    """The search once began at its lowest speed there, 0.12 GB/s: a GPU's C2C link did not count."""
    row = ClusterPlan(Cluster(machine("gh200x4", Combination(1, (1, 200.0), "", 2)), 2, FABRICS["slingshot"])).row(
        "all_reduce", NBYTES
    )
    assert row.bandwidths_GBps(row.pick)[1] == pytest.approx(22.8, rel=0.01)
