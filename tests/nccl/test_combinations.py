"""Machines of the catalogue with fewer GPUs, other NICs and other fabrics: a plan stays within three times the lower
bound, or gives the rule that keeps data from the links."""

from __future__ import annotations

import random

import pytest

from ringtree.machines import catalogue
from ringtree.machines.channels import Pattern
from ringtree.machines.clusters import Cluster
from ringtree.machines.nics import as_shown, usual_fabric
from ringtree.machines.paths import NEAR_GPUS
from ringtree.nccl.cluster_plan import ClusterPlan
from ringtree.nccl.shortfall import FAR, reasons
from ringtree.nccl.transport.gpu_slots import gpu_slots_GBps
from ringtree.topology.fabrics import FABRICS
from tests.nccl.combinations import LARGE, OWN, Combination, combinations, machine, numbers_of_gpus

NBYTES = 1 << 30
MACHINES = [name for name in catalogue.NAMES if catalogue.machine(name).gpus]
SAMPLED = 1
EVERY = 3
"""Of the machines, so many make one whose combination is tried in the quick tests."""
IDLE = ("its channels use", "between GPUs it leaves C2C")
"""Beginnings of reasons that say which links are idle, not why others carry little."""


def narrowest_Bps(plan: ClusterPlan) -> float:
    """The nominal bandwidth of what the rings use that has least of it: NICs, GPUs' slots to them, the kernel over
    TCP, a GPU's links to others; CPUs' links, whose share NCCL's rules for the hosts' memory decide, left out."""
    cluster, ring = as_shown(plan.cluster), plan.graphs[Pattern.RING]
    machine, fabric = cluster.machine, cluster.fabric
    least = []
    if ring.nics and fabric is not None:
        least += [sum(machine.devices[machine.nics[n]].rate_Bps for n in {n for pair in ring.nics for n in pair})]
        least += [gpu_slots_GBps(cluster, ring) * 1e9, fabric.kernel_Bps * min(ring.count, len(machine.gpus))]
    if len(machine.gpus) > 1:
        own = ([machine.links[n] for n in machine.leaving(g)] for g in machine.gpus)
        near = ([k for k in links if k.kind in NEAR_GPUS] or links for links in own)
        least += [min(sum(k.bandwidth_Bps for k in links) for links in near)]
    return min(least)


def explained(name: str, of: Combination) -> str:
    """What is wrong with the plan; empty where nothing is."""
    there = machine(name, of)
    try:
        plan = ClusterPlan(Cluster(there, of.nodes, FABRICS[of.fabric or str(usual_fabric(there))]))
        row = plan.row("all_reduce", NBYTES)
    except ValueError as refusal:  # "reaches no NIC", where the machine is several hosts
        return "" if "expected" in str(refusal) else str(refusal)
    share, pick = row.bound_fraction(row.pick), row.pick
    near = row.bandwidths_GBps(pick)[1] * 1e9 / narrowest_Bps(plan)
    rules = [text for text in reasons(plan.cluster, plan.graphs, pick) if not text.startswith(IDLE)]
    if share <= 1 and (share >= FAR or plan.shortfall(row)) and (near >= FAR or rules):
        return ""
    words = f"{share:.2f} of the bound, {row.bound.bottleneck}; {near:.2f} of the narrowest that it uses"
    return f"{name}, {of}: {words}; {pick.algorithm}, {pick.bottleneck}; {plan.shortfall(row)}"


WRONG = {
    "gh200x4": Combination(1, (1, 200.0), "", 2),
    "mi250x8": Combination(2, (3, 400.0), "", 4),
    "ascend-910b-x8": Combination(4, OWN, "", 2),
    "dgx-h100-superpod": Combination(8, OWN, "tcp", 2),
}
"""Plans that were wrong: a third of the NIC's rate, since a GPU's C2C link did not count; and beyond the bound, since a
GPU's slot did not, or Huawei's links counted as AMD's; none, where no slot lies on the way."""


@pytest.mark.parametrize("name", WRONG)
def test_combinations_that_were_wrong(name: str) -> None:
    assert not explained(name, WRONG[name])


@pytest.mark.parametrize("name", [name for name in MACHINES if name not in (*LARGE, "mi250x8")][::EVERY])
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
    """The search once began at its lowest speed there, and found 7.7 GB/s: a GPU's C2C link did not count."""
    row = ClusterPlan(Cluster(machine("gh200x4", Combination(1, (1, 200.0), "", 2)), 2, FABRICS["slingshot"])).row(
        "all_reduce", NBYTES
    )
    assert row.bandwidths_GBps(row.pick)[1] == pytest.approx(22.8, rel=0.01)
