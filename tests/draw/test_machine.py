"""Machines for a terminal."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ringtree.draw.machine_matrix import matrix
from ringtree.draw.machine_tree import bundles, fold, tree
from ringtree.draw.text.lines import plain
from ringtree.draw.text.machine import head_line, link_lines, note_lines, tree_lines
from ringtree.draw.text.machine_matrix import matrix_lines, verdict_lines
from ringtree.draw.text.machine_routes import channel_lines, copy_lines
from ringtree.machines.catalogue import NAMES, machine
from ringtree.machines.channels import Channels, Pattern
from ringtree.machines.copies import side_by_side
from ringtree.machines.machine import Device, DeviceKind, Link, LinkKind, Machine, Note, NoteKind, PathKind
from ringtree.machines.paths import Paths
from tests.draw.machines import CATALOGUE, pair

TREE = """\
cpu0  AMD EPYC 7763
└─ pci0                                        PCIe 4 x16  31.5 GB/s
   ├─ gpu0  NVIDIA A100 PCIe 80GB              PCIe 4 x16  31.5 GB/s
   ├─ gpu1  NVIDIA A100 PCIe 80GB              PCIe 4 x16  31.5 GB/s
   └─ nic0  Mellanox ConnectX-6 HDR, 200 Gb/s  PCIe 4 x16  31.5 GB/s
cpu1  AMD EPYC 7763
└─ gpu2  NVIDIA A100 PCIe 80GB                 PCIe 4 x8  15.8 GB/s"""
MATRIX = """\
path  GPU0  GPU1  GPU2  NIC0  NUMA
GPU0     X   NVL   SYS   PIX     0
GPU1   NVL     X   SYS   PIX     0
GPU2   SYS   SYS     X   SYS     1
NIC0   PIX   PIX   SYS     X     0

GB/s  GPU0  GPU1  GPU2  NIC0  NUMA
GPU0     X   300  15.8  25.0     0
GPU1   300     X  15.8  25.0     0
GPU2  15.8  15.8     X  15.8     1

NVL   NVLink or xGMI alone        1 pair
PIX   one PCIe switch at most     2 pairs
SYS   between NUMA nodes          3 pairs"""


def test_a_machine_is_a_tree_below_its_numa_nodes() -> None:
    m = pair()
    assert plain([head_line(m)]) == "a pair: 3 GPUs, 2 NUMA nodes, 1 PCIe switch, 1 NIC"
    assert plain(tree_lines(m, 100)) == TREE
    assert plain(link_lines(m, 100)) == (
        "CPU link       144 GB/s each way  cpu0 – cpu1\n12 × NVLink 3  300 GB/s each way  gpu0 – gpu1"
    )


def test_the_matrix_names_paths_as_nccl_does() -> None:
    assert plain(matrix_lines(Paths(pair()), 100)) == MATRIX


def test_verdicts_state_count_and_rule() -> None:
    printed = plain(verdict_lines(Paths(pair()), 200)).splitlines()
    assert [line[:30] for line in printed] == [
        "P2P             yes  1 of 3 pa", "P2P             no   2 of 3 pa", "GPUDirect RDMA  yes  2 of 3 GP",
        "GPUDirect RDMA  no   1 of 3 GP",
    ]  # fmt: skip
    assert "SYS between gpu0 and gpu2 is farther than PXB" in printed[1]


def test_traps_come_first_and_sources_when_asked_for() -> None:
    printed = plain(note_lines(pair(), 100)).splitlines()
    assert printed == ["trap     gpu2: its link has half the lanes", "assumed  gpu0: it is what it seems"]
    assert plain(note_lines(pair(), 100, sources=True)).splitlines()[2].startswith("source   ")


def test_what_no_table_knows_stands_before_the_traps() -> None:
    known = pair()
    more = replace(known, notes=(*known.notes, Note(NoteKind.UNKNOWN, "gpu1", "its id is in no table")))
    assert plain(note_lines(more, 100)).splitlines()[:2] == [
        "unknown  gpu1: its id is in no table", "trap     gpu2: its link has half the lanes",
    ]  # fmt: skip


def test_equal_notes_are_one() -> None:
    notes = tuple(Note(NoteKind.ASSUMED, f"gpu{k}", "so") for k in range(6))
    assert plain(note_lines(Machine("m", (), (), notes), 100)) == "assumed  gpu0, gpu1, gpu2 and 3 more: so"


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_machine_fits_its_window(name: str) -> None:
    """And a screen or two, however many GPUs it has."""
    m = machine(name)
    lines = [*tree_lines(m, 100), *link_lines(m, 100), *matrix_lines(Paths(m), 100), *verdict_lines(Paths(m), 100)]
    printed = plain(lines).splitlines()
    assert max(map(len, printed)) <= 100
    assert len(printed) < 140


@pytest.mark.parametrize("name", NAMES)
def test_every_device_and_link_is_on_the_picture(name: str) -> None:
    """Once: as a branch, or among the links that are none."""
    m = machine(name)
    below = [b for root in tree(m) for b in _all(root)]
    assert len({b.devices for b in below}) == len(below)
    joining = (DeviceKind.NVSWITCH, DeviceKind.SWITCH)
    assert {b.devices[0] for b in below} == {n for n, d in enumerate(m.devices) if d.kind not in joining}
    pairs = {frozenset((k.source, k.target)) for k in m.links}
    assert len(pairs) == sum(b.link is not None for b in below) + sum(len(x.pairs) for x in bundles(m))


def _all(branch):  # type: ignore[no-untyped-def]
    return [branch, *(below for b in branch.branches for below in _all(b))]


def test_folding_keeps_every_device() -> None:
    m = machine("gb200-nvl72")
    folded = fold(m, tree(m), 10)
    assert sum(b.rows for b in folded) == 3
    assert sorted(n for b in _all(folded[0]) for n in b.devices if m.devices[n].kind is DeviceKind.GPU) == list(m.gpus)
    assert fold(m, tree(m), 1000) == tree(m)


def test_twins_have_the_same_paths_to_all_others() -> None:
    found = matrix(Paths(machine("gb200-nvl72")))
    for group in found.twins:
        for a in group:
            for other in range(len(found.devices)):
                if other not in (a, group[0]) and a not in (other, group[0]):
                    first = group[0] if other != group[0] else a
                    assert found.kinds[a, other] == found.kinds[first, other]


def test_a_link_that_differs_by_direction_is_marked() -> None:
    devices = (Device("gpu0", DeviceKind.GPU), Device("gpu1", DeviceKind.GPU))
    links = (Link(0, 1, LinkKind.NVLINK, 50e9, width=2), Link(1, 0, LinkKind.NVLINK, 25e9))
    assert "50 GB/s there, 25 GB/s back" in plain(link_lines(Machine("m", devices, links), 100))
    assert "25 GB/s there, none back" in plain(link_lines(Machine("m", devices, links[1:]), 100))


def test_channels_have_route_and_speed() -> None:
    ring = Channels(Pattern.RING, ((0, 1, 2),) * 2, intra_Bps=20e9, intra=PathKind.NVL)
    assert plain(channel_lines([ring])) == "ring  2 channels, 20 GB/s each over NVL\n  0 → 1 → 2 → 0  2 times"
    net = Channels(Pattern.TREE, ((1, 0),), ((0, 1),), 20e9, 10e9, PathKind.NVL, PathKind.PIX)
    assert plain(channel_lines([net])).splitlines()[1] == "  NIC0 → 1 → 0 → NIC1"


def test_a_machine_of_nothing_is_drawn() -> None:
    empty = Machine("nothing", (), ())
    assert plain([head_line(empty)]) == "nothing: no devices"
    assert not tree_lines(empty, 80) and not link_lines(empty, 80) and not matrix_lines(Paths(empty), 80)


def test_routes_name_copies_and_movers() -> None:
    printed = plain(copy_lines(side_by_side(pair(), 0, 2), 100)).splitlines()
    assert printed[0].startswith("  P2P ") and "0 stops" in printed[0]
    taken = next(line for line in printed if line.startswith("✓"))
    assert "by the host's memory" in taken and "1 stop " in taken and "1 MiB in " in taken
    assert any("device to host" in line and "gpu0 → cpu0" in line and "by the gpu" in line for line in printed)
    assert max(map(len, printed)) <= 100


def test_too_large_machines_are_cut_or_refused() -> None:
    """In little time: a matrix grows with the square of its devices."""
    cpu = Device("cpu0", DeviceKind.CPU)
    gpus = tuple(Device(f"gpu{k}", DeviceKind.GPU) for k in range(700))
    wide = Machine("wide", (cpu, *gpus), tuple(Link(0, k + 1, LinkKind.PCIE, 1e9) for k in range(700)))
    assert "the first 640 of 700 GPUs and NICs" in plain(matrix_lines(Paths(wide), 100))
    switches = tuple(Device(f"pci{k}", DeviceKind.PCI) for k in range(100))
    deep = Machine("deep", (cpu, *switches), tuple(Link(k, k + 1, LinkKind.PCIE, 1e9) for k in range(100)))
    with pytest.raises(ValueError, match=r"^deep: pci64 hangs below 64 others; expected fewer, to draw them$"):
        tree_lines(deep, 100)
