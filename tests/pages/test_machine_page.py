"""The page of a machine as a file: the machine whole, and no larger than it must be."""

from __future__ import annotations

import json
import re

import pytest

from ringtree.machines.catalogue import machine
from ringtree.machines.clusters import Cluster
from ringtree.machines.machine import Device, DeviceKind, Link, LinkKind, Machine
from ringtree.pages.machine_page import MOST_DEVICES, machine_data, machine_page
from ringtree.topology.fabrics import FABRICS
from tests.draw.machines import CATALOGUE


@pytest.mark.parametrize("name", CATALOGUE)
def test_the_page_has_every_device_and_link(name: str) -> None:
    m = machine(name)
    data = machine_data(Cluster(m))
    assert [d["name"] for d in data["devices"]] == [d.name for d in m.devices]
    assert sum(k["there_Bps"] + k["back_Bps"] for k in data["links"]) == pytest.approx(
        sum(k.bandwidth_Bps for k in m.links)
    )
    assert len(json.dumps(data)) < 3_000_000


def test_a_cluster_names_its_network() -> None:
    data = machine_data(Cluster(machine("dgx-h100"), 4, FABRICS["roce"]))
    assert (data["network"]["nodes"], data["network"]["ranks"], data["network"]["fabric"]) == (4, 32, "roce")


def test_links_in_one_direction_are_marked() -> None:
    devices = (Device("gpu0", DeviceKind.GPU), Device("gpu1", DeviceKind.GPU))
    data = machine_data(Cluster(Machine("m", devices, (Link(1, 0, LinkKind.NVLINK, 5e9),))))
    (link,) = data["links"]
    assert (link["there_Bps"], link["back_Bps"]) == (0, 5e9)


def test_hostile_names_stay_words() -> None:
    name = "</script><script>alert(1)</script>"
    text = machine_page(Cluster(Machine(name, (Device(name, DeviceKind.GPU, name, name),), ())))
    assert not re.search(r"<script>alert", text)


def test_machines_too_large_for_a_browser_are_refused() -> None:
    devices = tuple(Device(f"gpu{k}", DeviceKind.GPU) for k in range(MOST_DEVICES + 1))
    with pytest.raises(ValueError, match=r"^m: too large for a page: 4,097 devices; expected at most 4,096$"):
        machine_page(Cluster(Machine("m", devices, ())))
