"""hwloc's sets of cores and nodes: how they are written, and the NUMA nodes that follow."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringtree.machines.files import hwloc_nodes, hwloc_xml
from ringtree.machines.files.xml_elements import Element, elements
from ringtree.machines.machine import DeviceKind, Machine


def element(text: str) -> Element:
    return Element("object", {"cpuset": text}, 7, "topo.xml")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", 0),
        ("0x0", 0),
        ("0x00000003", 3),
        ("0x00000001,0x00000003", 1 << 32 | 3),
        ("0xffff0000,,,,0x0", 0xFFFF0000 << 128),
        ("0x1,,0x2", 1 << 64 | 2),
        ("0x1,", 1 << 32),
        ("ff,00000000", 0xFF << 32),
        ("0xf...f", (1 << 2048) - 1),
        ("0xf...f,0x0", (1 << 2048) - (1 << 32)),
        ("0xf...f,,0x1", (1 << 2048) - (1 << 64) + 1),
    ],
)
def test_a_set_is_words_of_which_an_empty_one_is_nothing(text: str, found: int) -> None:
    assert hwloc_nodes.members(element(text), "cpuset") == found


@pytest.mark.parametrize("text", ["x", "0x123456789", "0-3", "0x1 0x2", "0xf...", "0x1,0xf...f", "-1", "１"])
def test_what_is_no_set_is_refused_with_its_line(text: str) -> None:
    with pytest.raises(ValueError, match=r"topo\.xml: line 7, .*cpuset=.*; expected a set such as"):
        hwloc_nodes.members(element(text), "cpuset")


def as_hwloc_writes(members: int) -> str:
    """hwloc_bitmap_snprintf: leading words left out, an empty one without a text, the last one always there."""
    words = [members >> at & 0xFFFFFFFF for at in range(0, max(members.bit_length(), 1), 32)][::-1]
    return ",".join([*(f"0x{w:08x}" if w else "" for w in words[:-1]), f"0x{words[-1]:08x}" if words[-1] else "0x0"])


@given(st.sets(st.integers(0, 2047)))
def test_every_set_that_hwloc_writes_is_read(members: set[int]) -> None:
    number = sum(1 << m for m in members)
    assert hwloc_nodes.members(element(as_hwloc_writes(number)), "cpuset") == number


def machine(*cpusets: str, pci: str = "") -> Machine:
    nodes = "".join(
        f'<object type="NUMANode" os_index="{n}" cpuset="{text}" nodeset="0x{1 << n:x}">{pci}</object>'
        for n, text in enumerate(cpusets)
    )
    text = f'<topology version="2.0"><object type="Machine" nodeset="0xff">{nodes}</object></topology>'
    return hwloc_xml.machine_of(elements(text.encode(), "topo.xml"))


def numas(m: Machine) -> list[int]:
    return [m.devices[n].numa for n in m.of_kind(DeviceKind.CPU)]


@pytest.mark.parametrize(
    ("cpusets", "with_cores"),
    [
        (["0x0000ffff", "0xffff0000", "0xffff0000,,,,0x0"], [0, 1, 2]),
        (["0x000000ff,,0x0", "0x0000ff00,,0x0"], [0, 1]),
        (["0x3", "0xc", "0x0"], [0, 1]),  # memory that no core is near
        (["0x3", "0xc", "0x3", "0xc"], [0, 1]),  # memory beside that of nodes 0 and 1
        (["0xf", "0x3", "0xc"], [1, 2]),  # memory near the cores of both
        (["0xf", "0x3"], [0, 1]),
    ],
)
def test_a_core_is_of_one_node_and_memory_alone_is_no_node(cpusets: list[str], with_cores: list[int]) -> None:
    m = machine(*cpusets)
    assert numas(m) == with_cores
    left_out = {n.about for n in m.notes if "taken as memory alone" in n.text}
    assert left_out == {f"NUMA node {n}" for n in range(len(cpusets)) if n not in with_cores}


GPU = (
    '<object type="Bridge" bridge_type="0-1"><object type="PCIDev" pci_busid="0000:81:00.0" '
    'pci_type="0302 [10de:2330] [10de:16c1] a1" pci_link_speed="63.015385"/></object>'
)
NODE_0 = '<object type="NUMANode" os_index="0" cpuset="0xf" nodeset="0x1"/>'


def view(machine_sets: str, *inner: str) -> Machine:
    text = f'<topology version="2.0"><object type="Machine" {machine_sets}>{"".join(inner)}</object></topology>'
    return hwloc_xml.machine_of(elements(text.encode(), "topo.xml"))


def below(sets: str, inner: str) -> str:
    return f'<object type="Package" {sets}>{inner}</object>'


def test_a_node_without_cores_is_kept_for_the_devices_at_it() -> None:
    """A cgroup without the cores of a package."""
    node_1 = '<object type="NUMANode" os_index="1" cpuset="0x0" complete_cpuset="0xf0" nodeset="0x2"/>'
    m = view('nodeset="0x3"', below('nodeset="0x1"', NODE_0), below('nodeset="0x2"', node_1 + GPU))
    assert numas(m) == [0, 1] and m.devices[m.gpus[0]].numa == 1
    (note,) = (note for note in m.notes if note.about == "NUMA node 1")
    assert note.text == "no core is its own: kept for the PCI devices at it"


@pytest.mark.parametrize(
    ("sets", "where", "why"),
    [
        ('nodeset="0x1"', below('nodeset="0x2"', GPU), "at NUMA node 1, without cores in hwloc's view"),
        (
            'nodeset="0x1"', below('nodeset="0x0" complete_nodeset="0x6"', GPU),
            "at NUMA nodes 1 and 2, without cores in hwloc's view",
        ),
        (
            'nodeset="0x1" complete_nodeset="0x3"', f'<info name="LinuxCgroup" value="/user.slice"/>{GPU}',
            "hwloc does not report its NUMA node, and its view leaves out 1 (LinuxCgroup /user.slice)",
        ),
        (
            'nodeset="0x1" complete_nodeset="0x3"', GPU,
            "hwloc does not report its NUMA node, and its view leaves out 1",
        ),
    ],
    ids=["no such node", "no nodes", "a cgroup", "a limited view"],
)  # fmt: skip
def test_a_device_outside_the_view_is_noted(sets: str, where: str, why: str) -> None:
    m = view(sets, below('nodeset="0x1"', NODE_0), where)
    assert [n.text for n in m.notes if "NUMA node" in n.text] == [f"{why}: taken as 0, which may be far from it"]


@pytest.mark.parametrize("sets", ['nodeset="0x1"', 'nodeset="0x1" complete_nodeset="0x3"'])
def test_a_device_whose_node_is_in_the_view_has_no_note(sets: str) -> None:
    m = view(sets, below('nodeset="0x1"', NODE_0 + GPU))
    assert m.devices[m.gpus[0]].numa == 0 and not any("NUMA node" in note.text for note in m.notes)


def test_more_nodes_than_a_machine_has_are_refused_where_they_begin() -> None:
    with pytest.raises(ValueError, match=r"topo\.xml: line 1, .*: more than 640 NUMA nodes; expected one machine's"):
        machine(*(f"0x{1 << n % 32:x}{',' * (n // 32)}" for n in range(641)))


def test_cores_are_written_as_nccl_reads_them() -> None:
    m = machine("0xffff0000,,,,0x0", "0x1")
    assert [m.devices[n].attributes["affinity"] for n in m.of_kind(DeviceKind.CPU)] == [
        "ffff0000,00000000,00000000,00000000,00000000",
        "00000001",
    ]
