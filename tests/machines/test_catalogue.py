"""The catalogue against the makers' documents on each machine, typed here a second time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ringtree.machines import catalogue
from ringtree.machines.catalogue import ENTRIES, NAMES, machine
from ringtree.machines.catalogue.entry import build
from ringtree.machines.machine import DeviceKind, LinkKind, Machine, NoteKind

# GPUs, their compute capability, NICs, Gbit/s of each, NUMA nodes, GB/s each way by which a GPU leaves for others
# without PCIe, and the usual fabric.
DOCUMENTED = {
    "dgx-1-p100": (8, 60, 4, 100, 2, 80, "infiniband"),
    "dgx-1-v100": (8, 70, 4, 100, 2, 150, "infiniband"),
    "dgx-2": (16, 70, 8, 100, 2, 150, "infiniband"),
    "dgx-a100": (8, 80, 8, 200, 8, 300, "infiniband"),
    "dgx-h100": (8, 90, 8, 400, 2, 450, "infiniband"),
    "dgx-h200": (8, 90, 8, 400, 2, 450, "infiniband"),
    "dgx-b200": (8, 100, 8, 400, 2, 900, "infiniband"),
    "dgx-b300": (8, 103, 8, 800, 2, 900, "infiniband"),
    "dgx-h100-superpod": (256, 90, 256, 400, 64, 450, "infiniband"),
    "gb200-nvl72": (72, 100, 72, 400, 36, 900, "infiniband"),
    "gh200x4": (4, 90, 4, 200, 4, 450, "slingshot"),
    "v100-pcie": (4, 70, 2, 100, 2, 0, "infiniband"),
    "a100-pcie-nvlink-pairs": (4, 80, 2, 200, 2, 300, "infiniband"),
    "h100-pcie-nvlink-pairs": (4, 90, 2, 400, 2, 300, "infiniband"),
    "rtx4090-pcie": (8, 89, 1, 100, 2, 0, "tcp"),
    "h200-nvl-bridge4": (4, 90, 4, 400, 2, 450, "roce"),
    "l40s-pcie": (8, 89, 4, 400, 2, 0, "roce"),
    "rtx-pro-6000-pcie": (8, 120, 4, 800, 2, 0, "roce"),
    "mi250x8": (16, 0, 8, 200, 4, 350, "infiniband"),
    "mi300x8": (8, 0, 8, 400, 2, 448, "infiniband"),
    "mi325x8": (8, 0, 8, 400, 2, 448, "infiniband"),
    "mi355x8": (8, 0, 8, 400, 2, 537.6, "roce"),
    "dcu-z100x4": (4, 0, 1, 200, 4, 0, "infiniband"),
    "ascend-910b-x8": (8, 0, 8, 200, 4, 196, "roce"),
    "cpu-2s": (0, 0, 1, 100, 2, 0, "tcp"),
    "aws-p3dn": (8, 70, 1, 100, 2, 150, "efa"),
    "aws-p4d": (8, 80, 4, 100, 2, 300, "efa"),
    "aws-p4de": (8, 80, 4, 100, 2, 300, "efa"),
    "aws-p5": (8, 90, 32, 100, 2, 450, "efa"),
    "aws-p5e": (8, 90, 32, 100, 2, 450, "efa"),
    "aws-p5en": (8, 90, 16, 200, 2, 450, "efa"),
    "aws-p6-b200": (8, 100, 8, 400, 2, 900, "efa"),
    "aws-p6-b300": (8, 103, 16, 400, 2, 900, "efa"),
    "aws-p6e-gb200": (72, 100, 72, 400, 36, 900, "efa"),
    "gcp-a3-high": (8, 90, 4, 200, 2, 450, "tcpx"),
    "gcp-a3-mega": (8, 90, 8, 200, 2, 450, "tcpxo"),
    "gcp-a3-ultra": (8, 90, 8, 400, 2, 450, "roce"),
    "gcp-a4": (8, 100, 8, 400, 2, 900, "roce"),
    "gcp-a4x": (72, 100, 72, 400, 36, 900, "roce"),
    "azure-ndv2": (8, 70, 1, 100, 2, 150, "infiniband"),
    "azure-ndv4": (8, 80, 8, 200, 4, 300, "infiniband"),
    "azure-ndv5": (8, 90, 8, 400, 2, 450, "infiniband"),
    "azure-nc96": (4, 80, 1, 80, 4, 300, "tcp"),
    "azure-ndv5-h200": (8, 90, 8, 400, 2, 450, "infiniband"),
    "azure-ndv5-mi300x": (8, 0, 8, 400, 2, 448, "infiniband"),
    "azure-ndv6-gb200": (72, 100, 72, 400, 36, 900, "infiniband"),
    "oci-gpu4": (8, 80, 8, 200, 4, 300, "roce"),
    "oci-b4": (8, 80, 8, 200, 4, 300, "roce"),
    "oci-h100": (8, 90, 8, 400, 2, 450, "roce"),
    "oci-h200": (8, 90, 8, 400, 2, 450, "roce"),
    "oci-b200": (8, 100, 8, 400, 2, 900, "roce"),
    "oci-mi300x": (8, 0, 8, 400, 2, 448, "roce"),
    "oci-gb200": (72, 100, 72, 400, 36, 900, "roce"),
}
DIRECT = (LinkKind.NVLINK, LinkKind.XGMI)


def test_every_machine_of_the_catalogue_is_documented_here() -> None:
    assert set(NAMES) == set(DOCUMENTED)


def test_no_two_entries_have_one_name() -> None:
    assert sorted(e.name for e in catalogue._ALL) == sorted(NAMES)


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ({"gpu": "H100X"}, "mine: no GPU 'H100X' in machines/parts: expected one of .*H100 PCIe"),
        ({"cpu": ""}, "mine: no CPU ''"),
        ({"nic": ""}, "mine: numa has n0, and nic is empty"),
        ({"numa": ("[g0 g1 n0]", "[g2 g4 n1]")}, r"mine: numa has g\[0, 1, 2, 4\]; expected each of g0 to g3 once"),
        ({"numa": ("[g0 g1 n0]", "[[g2 g3 n1]")}, "brackets do not match"),
        ({"numa": ("[g0 g1 n0]", "[g2 g3 x1]")}, "'x1' is none; expected g0, n0, s0, d0"),
        ({"gpu": "L40S"}, "mine: mesh '0-1x12 2-3x12', and a L40S has no links of its own"),
    ],
)
def test_a_wrong_entry_is_named(wrong: dict[str, Any], expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        build(replace(ENTRIES["h100-pcie-nvlink-pairs"], name="mine", **wrong))


@pytest.mark.parametrize("name", NAMES)
def test_counts_and_rates_are_the_documented_ones(name: str) -> None:
    m = machine(name)
    gpus, sm, nics, rate, numa, _, fabric = DOCUMENTED[name]
    assert m.name == name
    assert len(m.gpus) == gpus and {m.devices[g].sm for g in m.gpus} <= {sm}
    assert len(m.nics) == nics and {m.devices[n].rate_Bps * 8e-9 for n in m.nics} == {rate}
    assert {m.devices[n].attributes["fabric"] for n in m.nics} == {fabric}
    assert len(m.of_kind(DeviceKind.CPU)) == numa


@pytest.mark.parametrize("name", [name for name in NAMES if DOCUMENTED[name][0]])
def test_every_gpu_has_the_bandwidth_to_others_that_its_maker_states(name: str) -> None:
    m = machine(name)
    for g in m.gpus:
        out = sum(m.links[k].bandwidth_Bps for k in m.leaving(g) if m.links[k].kind in DIRECT)
        assert out == pytest.approx(DOCUMENTED[name][5] * 1e9)


def _reached(m: Machine, start: int) -> set[int]:
    seen, edge = {start}, [start]
    while edge:
        at = edge.pop()
        edge += [b for k in m.leaving(at) if (b := m.links[k].target) not in seen]
        seen |= set(edge)
    return seen


@pytest.mark.parametrize("name", NAMES)
def test_gpus_reach_one_another_and_every_device_is_joined(name: str) -> None:
    m = machine(name)
    assert _reached(m, 0) == set(range(len(m.devices)))


@pytest.mark.parametrize("name", NAMES)
def test_links_are_alike_in_both_directions(name: str) -> None:
    m = machine(name)
    links = sorted((k.source, k.target, k.kind.value, k.bandwidth_Bps, k.latency_s) for k in m.links)
    assert links == sorted((k.target, k.source, k.kind.value, k.bandwidth_Bps, k.latency_s) for k in m.links)
    assert all(0 < k.latency_s < 1e-6 for k in m.links)


@pytest.mark.parametrize("name", NAMES)
def test_every_figure_has_its_source(name: str) -> None:
    m = machine(name)
    sourced = {n.about for n in m.notes if n.kind is NoteKind.SOURCE and n.text}
    assert name in sourced
    for d in m.devices:
        if d.kind not in (DeviceKind.PCI, DeviceKind.STORAGE):
            assert d.model in sourced, d
    for k in m.links:
        if k.kind is not LinkKind.CPU:  # its source is the CPU's
            about = f"{k.kind.value} {k.generation}" if k.generation else k.kind.value
            assert about in sourced, k
    assert not [n for n in m.notes if "nccl-tests" in n.text.lower() or "nccl_tests" in n.text]


def _direct(m: Machine) -> dict[tuple[int, int], int]:
    position = {g: k for k, g in enumerate(m.gpus)}
    return {
        (position[k.source], position[k.target]): k.width
        for k in m.links
        if k.kind in DIRECT and k.source in position and k.target in position
    }


def test_the_hybrid_cube_mesh_is_the_one_of_the_whitepaper() -> None:
    two = {(0, 3), (0, 4), (1, 2), (1, 5), (2, 3), (4, 7), (5, 6), (6, 7)}
    one = {(0, 1), (0, 2), (1, 3), (2, 6), (3, 7), (4, 5), (4, 6), (5, 7)}
    for name in ("dgx-1-v100", "aws-p3dn", "azure-ndv2"):
        links = _direct(machine(name))
        assert {p for p, count in links.items() if p[0] < p[1] and count == 2} == two
        assert {p for p, count in links.items() if p[0] < p[1] and count == 1} == one


def test_the_cube_mesh_has_a_link_to_three_of_the_quad_and_one_across() -> None:
    links = _direct(machine("dgx-1-p100"))
    assert set(links.values()) == {1}
    for g in range(8):
        assert {b for a, b in links if a == g} == {q for q in range(8) if q // 4 == g // 4 and q != g} | {(g + 4) % 8}


def test_half_of_a_nodes_nvlink_leaves_it_in_the_superpod() -> None:
    m = machine("dgx-h100-superpod")
    top = m.device("nvswitch-top")
    up = [m.links[k] for k in m.leaving(m.device("nvswitch0")) if m.links[k].target == top]
    assert [(k.width, 2 * k.bandwidth_Bps) for k in up] == [(72, 3.6e12)]
    assert len(m.leaving(top)) == 32


def test_a_bridge_of_four_joins_each_two_by_six_links() -> None:
    links = _direct(machine("h200-nvl-bridge4"))
    assert set(links.values()) == {6} and len(links) == 12


def test_pairs_are_pairs() -> None:
    for name in ("a100-pcie-nvlink-pairs", "h100-pcie-nvlink-pairs", "azure-nc96"):
        assert set(_direct(machine(name))) == {(0, 1), (1, 0), (2, 3), (3, 2)}


@pytest.mark.parametrize(
    ("name", "near"),
    [("dgx-a100", 2), ("aws-p5", 1), ("aws-p5en", 2), ("aws-p6-b300", 1), ("gcp-a3-high", 2), ("l40s-pcie", 2)],
)
def test_gpus_share_a_switch_with_their_nics(name: str, near: int) -> None:
    m = machine(name)
    for switch in m.of_kind(DeviceKind.PCI):
        below = [m.devices[m.links[k].target].kind for k in m.leaving(switch)]
        assert below.count(DeviceKind.GPU) == near
        assert below.count(DeviceKind.NIC) == near * len(m.nics) // len(m.gpus)


def test_a_slot_is_as_fast_as_the_slower_end() -> None:
    m = machine("aws-p5")
    switch = m.of_kind(DeviceKind.PCI)[0]
    generations = {m.devices[m.links[k].target].kind: m.links[k].generation for k in m.leaving(switch)}
    assert generations == {DeviceKind.CPU: 4, DeviceKind.GPU: 5, DeviceKind.NIC: 4}


def test_a_machine_is_one_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = replace(ENTRIES["dgx-h100"], name="mine", numa=("[g0 n0 n1]", "[g1 n2 n3]"), source="a shop")
    monkeypatch.setitem(ENTRIES, "mine", mine)
    m = catalogue.machine("mine")
    assert (len(m.gpus), len(m.nics), m.name) == (2, 4, "mine")
    assert build(mine).links == m.links


def test_a_name_that_is_none_is_answered_with_those_there_are() -> None:
    with pytest.raises(ValueError, match=r"no machine is named 'dgx-9'.*dgx-h100"):
        machine("dgx-9")
