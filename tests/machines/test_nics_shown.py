"""The NICs NCCL is shown: with EFA, those of a PCIe switch as one for each GPU there."""

from __future__ import annotations

import pytest

from ringtree.machines.catalogue import machine
from ringtree.machines.clusters import Cluster
from ringtree.machines.machine import Machine
from ringtree.machines.nics import _split, as_shown
from ringtree.topology.fabrics import FABRICS


def uplinks_Bps(host: Machine) -> float:
    return sum(host.links[n].bandwidth_Bps for nic in host.nics for n in host.leaving(nic))


def test_efas_of_a_switch_with_one_gpu_are_one_of_their_rates_together() -> None:
    cluster = Cluster(machine("aws-p5"), 2, FABRICS["efa"])
    seen = as_shown(cluster).machine
    assert len(cluster.machine.nics) == 32 and len(seen.nics) == 8
    assert [seen.devices[n].rate_Bps for n in seen.nics] == [4 * 12.5e9] * 8
    assert len(seen.gpus) == 8
    assert uplinks_Bps(seen) == pytest.approx(uplinks_Bps(cluster.machine))
    assert as_shown(cluster).machine is seen


def test_efas_of_a_switch_with_two_gpus_are_two() -> None:
    """As one of 100 GB/s, NVLink SHARP had half of its NICs, and eight GPUs of p6-b200 365 GB/s instead of 663."""
    seen = as_shown(Cluster(machine("aws-p5en"), 2, FABRICS["efa"])).machine
    assert [seen.devices[n].rate_Bps for n in seen.nics] == [2 * 25e9] * 8
    assert [seen.devices[n].name for n in seen.nics] == [f"nic{n}" for n in range(0, 16, 2)]


@pytest.mark.parametrize(("nics", "parts", "sizes"), [(4, 2, [2, 2]), (5, 2, [3, 2]), (1, 2, [1]), (3, 0, [3])])
def test_groups_are_even_and_the_first_ones_longer(nics: int, parts: int, sizes: list[int]) -> None:
    groups = _split(range(nics), parts)
    assert [len(g) for g in groups] == sizes and [n for g in groups for n in g] == list(range(nics))


def test_others_are_shown_as_they_are() -> None:
    for cluster in (
        Cluster(machine("aws-p5")),
        Cluster(machine("aws-p6-b200"), 2, FABRICS["efa"]),
        Cluster(machine("aws-p4d"), 2, FABRICS["efa"]),
        Cluster(machine("dgx-h100"), 2, FABRICS["infiniband"]),
    ):
        assert as_shown(cluster) is cluster
