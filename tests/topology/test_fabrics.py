"""Fabrics: each has a source, and figures that its protocol allows."""

import re
from math import inf
from pathlib import Path

import pytest

from ringtree.topology.fabrics import FABRICS


def test_all_that_people_ask_for_are_there():
    assert set(FABRICS) == {"infiniband", "roce", "efa", "slingshot", "tcp", "tcpx", "tcpxo"}
    assert all(name == fabric.name for name, fabric in FABRICS.items())


@pytest.mark.parametrize("name", FABRICS)
def test_figures_are_possible_and_have_a_source(name):
    fabric = FABRICS[name]
    assert 0.9 < fabric.payload < 1
    assert 0 < fabric.message_s < fabric.latency_s < 1e-3
    assert 0 < fabric.hop_s < fabric.latency_s
    assert "payload" in fabric.source
    assert "latency" in fabric.source


@pytest.mark.parametrize("name", FABRICS)
def test_only_a_kernel_limits_a_cores_rate(name):
    fabric = FABRICS[name]
    assert (fabric.kernel_Bps == inf) == fabric.rdma


def test_payload_is_the_packet_without_headers():
    assert FABRICS["infiniband"].payload == pytest.approx(4096 / 4122)
    assert FABRICS["roce"].payload == pytest.approx(4096 / 4178)
    assert FABRICS["tcp"].payload == pytest.approx(1448 / 1538)


def test_the_documentation_has_the_figures():
    table = (Path(__file__).parents[2] / "docs/topology.md").read_text(encoding="utf-8")
    for name, fabric in FABRICS.items():
        rdma, gdr = ("yes" if has else "no" for has in (fabric.rdma, fabric.gdr))
        latency = f"{fabric.latency_s * 1e6:.3g}"
        row = rf"\| `{name}` \| {rdma} \| {gdr} \| {100 * fabric.payload:.1f} % \| {latency}(\.0)? µs \|"
        assert re.search(row, table), row
