"""The NICs NCCL is shown: with EFA, those of a PCIe switch as one."""

from __future__ import annotations

import pytest

from ringtree.machines.catalogue import machine
from ringtree.machines.clusters import Cluster
from ringtree.machines.machine import Machine
from ringtree.machines.nics import as_shown
from ringtree.topology.fabrics import FABRICS


def uplinks_Bps(host: Machine) -> float:
    return sum(host.links[n].bandwidth_Bps for nic in host.nics for n in host.leaving(nic))


def test_efas_of_a_switch_are_one_of_their_rates_together() -> None:
    cluster = Cluster(machine("aws-p5"), 2, FABRICS["efa"])
    seen = as_shown(cluster).machine
    assert len(cluster.machine.nics) == 32 and len(seen.nics) == 8
    assert [seen.devices[n].rate_Bps for n in seen.nics] == [4 * 12.5e9] * 8
    assert len(seen.gpus) == 8
    assert uplinks_Bps(seen) == pytest.approx(uplinks_Bps(cluster.machine))
    assert as_shown(cluster).machine is seen


def test_others_are_shown_as_they_are() -> None:
    for cluster in (
        Cluster(machine("aws-p5")),
        Cluster(machine("aws-p4d"), 2, FABRICS["efa"]),
        Cluster(machine("dgx-h100"), 2, FABRICS["infiniband"]),
    ):
        assert as_shown(cluster) is cluster
