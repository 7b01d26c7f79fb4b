"""The acceptance test of the catalogue: a machine that nobody here knows shows everywhere, by one entry."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ringtree.cli.topo import list as topo_list
from ringtree.machines import catalogue
from ringtree.machines.catalogue.entry import CatalogueEntry
from tests.cli.conftest import Ringtree

WORKSTATION = CatalogueEntry(
    name="workstation",
    what="2 H100 PCIe below a switch, one NIC",
    source="a shop: for this test",
    cpu="Xeon Platinum 8480C",
    numa=("[g0 g1 n0]",),
    sockets=1,
    gpu="H100 PCIe",
    nic="ConnectX-7 NDR",
    fabric="infiniband",
    mesh="0-1x12",
)


@pytest.fixture
def workstation(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(topo_list, "NAMES", (*catalogue.NAMES, WORKSTATION.name))
    monkeypatch.setitem(catalogue.ENTRIES, WORKSTATION.name, WORKSTATION)
    monkeypatch.setattr(catalogue, "NAMES", tuple(catalogue.ENTRIES))
    return WORKSTATION.name


def test_a_new_machine_shows_everywhere(ringtree: Ringtree, workstation: str, tmp_path: Path) -> None:
    (listed,) = (line for line in ringtree("topo", "list").out.splitlines() if line.startswith(workstation))
    assert "2 × H100 PCIe" in listed and "1 × 400 Gb/s" in listed
    shown = ringtree("topo", "show", workstation, "--sources").out
    assert "12 × NVLink 4" in shown and "a shop: for this test" in shown
    page, file = tmp_path / "page.html", tmp_path / "topo.xml"
    assert ringtree("topo", "show", workstation, "--html", str(page), "--xml", str(file)).code == 0
    assert workstation in page.read_text() and "<nvlink" in file.read_text()
    rows = tmp_path / "rows.json"
    planned = ringtree(
        "plan", "all_reduce", "--topology", workstation, "--nodes", "2", "--bytes", "1G", "--json", str(rows)
    )
    assert "on workstation x2: 2 GPUs a node" in planned.out
    assert 25 < json.loads(rows.read_text())["rows"][0]["algbw_GBps"] < 50
    assert ringtree("sweep", "all_reduce", "--topology", workstation, "--bytes", "1M").code == 0
    assert ringtree("simulate", "ring", "--topology", workstation, "-n", "2", "--bytes", "1M").code == 0
