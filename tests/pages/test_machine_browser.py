"""The page of a machine, in a browser."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from ringtree.machines.catalogue import machine
from ringtree.machines.channels import Channels, Pattern
from ringtree.machines.clusters import Cluster
from ringtree.machines.machine import Device, DeviceKind, Link, LinkKind, Machine, PathKind, both_ways
from ringtree.pages.machine_page import machine_page
from tests.draw.machines import pair
from tests.pages.browser.driver import Browser, Page

RING = Channels(Pattern.RING, ((0, 1, 2), (2, 1, 0)), (), 20e9, 20e9, PathKind.SYS)
TREE = Channels(Pattern.TREE, ((1, 0, 2),), ((0, 0),), 20e9, 10e9, PathKind.SYS, PathKind.PIX)
VIEW = "document.querySelector('#view-machine').dataset"


def shown(browser: Browser, folder: Path, text: str, **options: Any) -> Any:
    path = folder / "machine.html"
    path.write_text(text, encoding="utf-8")
    return browser.open(path, **options)


@pytest.fixture
def page(browser: Browser, tmp_path: Path) -> Iterator[Page]:
    with shown(browser, tmp_path, machine_page(Cluster(pair()), (RING, TREE))) as page:
        yield page


def data(page: Page, selector: str) -> list[dict[str, str]]:
    """The data attributes of all that are selected."""
    found: list[dict[str, str]] = page.run(
        f"[...document.querySelectorAll({json.dumps(selector)})].map(e => ({{...e.dataset}}))"
    )
    return found


def test_every_device_and_link_is_drawn_once(page: Page) -> None:
    m = pair()
    devices = data(page, ".machine-picture [data-device]")
    assert sorted(d["device"] for d in devices) == sorted(d.name for d in m.devices)
    links = data(page, ".machine-picture [data-link]")
    assert len(links) == len(m.links) // 2
    nvlink = next(k for k in links if k["kind"] == "nvlink")
    assert (nvlink["link"], nvlink["generation"], nvlink["width"]) == ("gpu0|gpu1", "3", "12")
    assert float(nvlink["bandwidthBps"]) == 300e9


def test_the_matrix_has_kinds_and_bandwidths(page: Page) -> None:
    cells = {(c["a"], c["b"]): c for c in data(page, ".machine-matrix .cell")}
    assert len(cells) == 16
    assert cells["gpu0", "gpu1"]["kind"] == "NVL" and float(cells["gpu0", "gpu1"]["bandwidthBps"]) == 300e9
    assert cells["gpu2", "nic0"]["kind"] == "SYS"
    assert "NVL" in page.text(".machine-matrix svg")
    page.press("m")
    assert page.run(f"{VIEW}.matrix") == "bandwidth" and "300" in page.text(".machine-matrix svg")


def test_a_cell_lights_up_its_path(page: Page) -> None:
    page.hover('.cell[data-a="gpu1"][data-b="gpu2"]')
    assert {k["link"] for k in data(page, "[data-lit]")} == {"pci0|gpu1", "cpu0|pci0", "cpu0|cpu1", "cpu1|gpu2"}
    assert "15.8 GB/s" in page.text(".machine-tip")


def test_a_channel_is_laid_over_the_picture(page: Page) -> None:
    assert page.count("[data-hop]") == 0
    page.click("#machine-pattern-0")
    hops = data(page, "[data-hop]")
    assert [(h["from"], h["to"]) for h in hops] == [("gpu0", "gpu1"), ("gpu1", "gpu2"), ("gpu2", "gpu0")]
    page.press("ArrowRight")
    assert page.run(f"{VIEW}.channel") == "1" and page.text(".machine-order") == "2 → 1 → 0 → 2"
    page.press("0")
    assert page.count("[data-hop]") == 6 and "2 channels, 20 GB/s each over SYS" in page.text(".machine-order")
    page.press("r")
    assert page.run(f"{VIEW}.pattern") == "tree"
    assert [(h["from"], h["to"]) for h in data(page, "[data-hop]")] == [
        ("nic0", "gpu1"), ("gpu1", "gpu0"), ("gpu0", "gpu2"), ("gpu2", "nic0"),
    ]  # fmt: skip
    page.press("r")
    assert page.run(f"{VIEW}.pattern") == "" and page.count("[data-hop]") == 0


def test_traps_come_before_assumptions(page: Page) -> None:
    assert [n["note"] for n in data(page, "[data-note]")][:2] == ["trap", "assumed"]
    rules = data(page, ".machine-rules tr")
    assert [(r["what"], r["applies"], r["found"]) for r in rules] == [
        ("p2p", "true", "1"), ("p2p", "false", "2"), ("gdr", "true", "2"), ("gdr", "false", "1"),
    ]  # fmt: skip


def test_the_tip_describes_the_part_below_the_pointer(page: Page) -> None:
    page.hover('[data-device="nic0"]')
    tip = page.text(".machine-tip")
    assert "ConnectX-6 HDR" in tip and "200 Gb/s" in tip
    page.hover('[data-device="gpu2"]')
    assert "its link has half the lanes" in page.text(".machine-tip")


def test_in_chinese_and_in_the_dark(browser: Browser, tmp_path: Path) -> None:
    text = machine_page(Cluster(pair()), (RING,))
    with shown(browser, tmp_path, text, locale="zh-CN", colorScheme="dark") as page:
        assert "NUMA 节点" in page.text(".machine-facts") and "陷阱" in page.text(".machine-side")
        before = page.run("getComputedStyle(document.body).backgroundColor")
        page.press("d")
        assert page.run("getComputedStyle(document.body).backgroundColor") != before


def test_the_picture_stands_alone(page: Page) -> None:
    name, svg = page.download("#export-svg")
    root = ElementTree.fromstring(svg)
    assert name == "a_pair-machine.svg"
    words = "".join(root.itertext())
    assert "NUMA node 1" in words and "GPU 2" in words and "NVL" in words


def test_a_large_machine_is_one_switch_and_a_picture_of_cells(browser: Browser, tmp_path: Path) -> None:
    m = machine("gb200-nvl72")
    with shown(browser, tmp_path, machine_page(Cluster(m))) as page:
        assert page.count('[data-kind="gpu"][data-device]') == 72 and page.count("[data-trunk]") == 1
        assert data(page, ".machine-matrix .cells")[0]["cells"] == str(144 * 144)
        legend = {r["kind"]: int(r["pairs"]) for r in data(page, ".machine-legend tr")}
        assert legend["NVL"] == 72 * 71 // 2


@pytest.mark.parametrize("name", ["dgx-1-v100", "mi300x8", "azure-nc96", "gh200x4", "cpu-2s", "aws-p5"])
def test_nothing_lies_over_anything_else(browser: Browser, tmp_path: Path, name: str) -> None:
    with shown(browser, tmp_path, machine_page(Cluster(machine(name)))) as page:
        boxes = page.run(
            "[...document.querySelectorAll('.devices [data-device] rect:first-child')].map(e => "
            "['x', 'y', 'width', 'height'].map(a => Number(e.getAttribute(a))))"
        )
    for i, (x, y, w, h) in enumerate(boxes):
        for a, b, c, d in boxes[:i]:
            assert x + w <= a or a + c <= x or y + h <= b or b + d <= y


def test_routes_lie_side_by_side(page: Page) -> None:
    """With GPUDirect nothing is put down on the way; over TCP the kernel has it in between."""
    routes = {w["way"]: w for w in data(page, ".machine-ways tbody tr")}
    assert (routes["P2P"]["stops"], routes["P2P"]["applies"]) == ("0", "true")
    assert int(routes["tcp"]["stops"]) == 4 and routes["tcp"]["applies"] == "false"
    copied = [c["copy"] for c in data(page, '[data-way="tcp"] [data-copy]')]
    assert copied[0] == "device to host" and "user to kernel" in copied and "wire" in copied


GPUS = (Device("a", DeviceKind.GPU), Device("b", DeviceKind.GPU))
ODD = {
    "nothing": Machine("m", (), ()),
    "one GPU": Machine("m", GPUS[:1], ()),
    "no links": Machine("m", GPUS, ()),
    "NVLink alone": Machine("m", GPUS, both_ways(Link(0, 1, LinkKind.NVLINK, 5e10))),
    "NICs alone": Machine("m", (Device("n", DeviceKind.NIC), Device("o", DeviceKind.NIC)), ()),
    "a network": Machine(
        "m",
        (*GPUS, Device("n", DeviceKind.NIC), Device("s", DeviceKind.SWITCH)),
        (*both_ways(Link(0, 2, LinkKind.PCIE, 5e10)), *both_ways(Link(2, 3, LinkKind.INFINIBAND, 5e10))),
    ),
    "a CPU between": Machine(
        "m",
        (Device("c", DeviceKind.CPU), *GPUS),
        (*both_ways(Link(0, 1, LinkKind.C2C, 5e10)), *both_ways(Link(0, 2, LinkKind.SHM, 5e10))),
    ),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_machines_are_drawn(browser: Browser, tmp_path: Path, name: str) -> None:
    """Without an error, which would fail this; each device once."""
    m = ODD[name]
    with shown(browser, tmp_path, machine_page(Cluster(m))) as page:
        names = [d["device"] for d in data(page, ".machine-picture [data-device]") if d["device"]]
        assert sorted(names) == sorted(d.name for d in m.devices)
        for key in ("m", "r", "ArrowRight"):
            page.press(key)
