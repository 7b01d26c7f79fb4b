"""Payload and latency of links."""

import pytest

from ringtree.machines.catalogue import machine
from ringtree.machines.clusters import Cluster
from ringtree.machines.link_figures import LATENCY_S, PAYLOAD, data_Bps, latency_s
from ringtree.machines.machine import Link, LinkKind


def test_figures_are_possible():
    assert all(0.7 < share <= 1 for share in PAYLOAD.values())
    assert all(10e-9 < latency < 1e-6 for latency in LATENCY_S.values())
    assert set(LATENCY_S) == set(LinkKind)


def test_a_links_own_latency_comes_first():
    assert latency_s(Link(0, 1, LinkKind.PCIE, 1e9, 3e-6)) == 3e-6
    assert latency_s(Link(0, 1, LinkKind.PCIE, 1e9)) == LATENCY_S[LinkKind.PCIE]


def test_a_topologys_links_carry_data():
    topology = Cluster(machine("dgx-h100")).topology()
    assert data_Bps(Link(0, 1, LinkKind.NVLINK, 17.0)) == 16
    assert topology.bandwidth_Bps[topology.route(0, 1)[0]] == pytest.approx(450e9 * 16 / 17)
