"""Entries of a file that NCCL reads otherwise, or to the machine's harm: each has a note with what NCCL does."""

from __future__ import annotations

from pathlib import Path

import pytest

from ringtree.machines.files import nccl_xml
from ringtree.machines.files.xml_elements import elements
from ringtree.machines.machine import LinkKind, Machine, NoteKind

GEN4_CPU = 'arch="x86_64" vendor="AuthenticAMD" familyid="25" modelid="1"'
GEN3_CPU = 'arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="85"'
GPU = '<gpu dev="0" sm="80" rank="0" gdr="1"/>'


def machine(inside: str, cpu: str = GEN4_CPU, numa: int = 0) -> Machine:
    text = f'<system version="1"><cpu numaid="{numa}" {cpu}>{inside}</cpu></system>'
    return nccl_xml.machine_of(elements(text.encode(), "topo.xml"))


def slot(speed: str, width: int = 16, inside: str = GPU, busid: str = "0000:01:00.0", code: str = "0x030200") -> str:
    return f'<pci busid="{busid}" class="{code}" link_speed="{speed}" link_width="{width}">{inside}</pci>'


def switch(speed: str, width: int, inside: str, busid: str = "0000:02:00.0") -> str:
    return slot(speed, width, inside, busid, "0x060400")


def net(attributes: str) -> str:
    return slot("16 GT/s", 16, f'<nic><net name="n0" dev="0" {attributes}/></nic>', code="0x020000")


ARTIFICIAL = "2.5 GT/s PCIe"
TRAPS: dict[str, tuple[Machine, str, str]] = {
    "no PCIe behind 16.0": (machine(slot("16.0 GT/s")), "gpu0", "silently takes PCIe 3 for PCIe 4"),
    "no speed": (machine(slot("")), "gpu0", 'link_speed ""'),
    "32.0 below a switch": (machine(switch("16 GT/s", 16, slot("32.0 GT/s"))), "gpu0", 'write "32.0 GT/s PCIe"'),
    "an artificial uplink": (machine(switch(ARTIFICIAL, 1, slot("16 GT/s"))), "0000:02:00.0", "an artificial speed"),
    "one two switches up": (
        machine(switch(ARTIFICIAL, 1, switch("16 GT/s", 16, slot("16 GT/s"), "0000:03:00.0"))),
        "0000:02:00.0",
        "keeps NCCL's traffic below the switch",
    ),
    "no NUMA nodes": (machine(slot("16 GT/s"), numa=-1), "cpu", "does not report its NUMA nodes"),
    "faster than the CPU": (
        machine(slot("16 GT/s"), GEN3_CPU),
        "gpu0",
        "PCIe 4 in the file, PCIe 3 in Xeon Platinum 8168",
    ),
    "a GPU linked to itself": (
        machine(slot("16 GT/s", 16, GPU[:-2] + '><nvlink target="0000:01:00.0" count="12" tclass="0x030200"/></gpu>')),
        "gpu0",
        "12 links of it lead to itself",
    ),
    "links one way": (
        machine(
            slot("16 GT/s", 16, GPU[:-2] + '><nvlink target="0000:05:00.0" count="2" tclass="0x030200"/></gpu>')
            + slot("16 GT/s", 16, GPU.replace('"0"', '"1"'), "0000:05:00.0")
        ),
        "0000:01:00.0 to 0000:05:00.0",
        "2 nvlink one way, 0 the other",
    ),
    "no rate": (machine(net('speed="-1" gdr="1"')), "n0", "NCCL takes 10000"),
    "a fast NIC without RDMA": (machine(net('speed="100000" gdr="0"')), "n0", "gdr=0 on a NIC of 100 Gb/s"),
    "a GPU without RDMA": (machine(slot("16 GT/s", 16, GPU.replace('gdr="1"', 'gdr="0"'))), "gpu0", "gdr=0"),
    "a NIC without a busid": (machine('<nic><net name="n0" dev="0" speed="1000"/></nic>'), "n0", "busid is missing"),
    "a GPU of no rank": (
        machine(slot("16 GT/s") + slot("16 GT/s", 16, '<gpu dev="1"/>', "0000:05:00.0")),
        "0000:05:00.0",
        "without a rank: left out",
    ),
    "a GPU of no tag": (
        machine(slot("16 GT/s") + slot("16 GT/s", 16, "", "0000:05:00.0")),
        "0000:05:00.0",
        "has no <gpu> as others have",
    ),
    "a word of another": (machine(slot("16 GT/s", 16, GPU + "<fan/>")), "line 1", "<fan> inside <pci>"),
}


@pytest.mark.parametrize("name", TRAPS)
def test_a_trap_is_noted_with_nccls_behaviour(name: str) -> None:
    m, about, text = TRAPS[name]
    found = [n for n in m.notes if n.kind in (NoteKind.TRAP, NoteKind.ASSUMED) and text in n.text]
    assert len(found) == 1 and found[0].about.startswith(about)


def test_where_nothing_is_wrong_there_is_no_trap() -> None:
    fine = (
        switch("16.0 GT/s PCIe", 16, slot("16.0 GT/s PCIe") + net('speed="200000" gdr="1"').replace("01:", "03:"))
        + switch("8.0 GT/s PCIe", 8, slot("8 GT/s", 4, "", "0000:06:00.0", "0x010802"), "0000:05:00.0")
    )  # fmt: skip
    assert not [n for n in machine(fine).notes if n.kind is NoteKind.TRAP]


def test_slots_are_no_faster_than_their_cpu_and_gpus_are_known_by_that() -> None:
    m = machine("".join(slot("16 GT/s", 16, "", f"000{n}:00:00.0") for n in range(8)), GEN3_CPU)
    assert {m.devices[n].model for n in m.gpus} == {"V100 SXM2"}
    assert {k.generation for k in m.links if k.kind is LinkKind.PCIE} == {3}


@pytest.mark.parametrize(("links", "trap"), [(18, False), (36, False), (37, True), (1000, True)])
def test_far_more_links_than_a_model_has_are_a_trap(links: int, trap: bool) -> None:
    def gpu(n: int) -> str:
        inside = f'<nvlink target="0000:0{2 - n}:00.0" count="{links}" tclass="0x030200"/>'
        h100 = f'<gpu dev="{n}" sm="90" rank="{n}" gdr="1">{inside}</gpu>'
        found = slot("32.0 GT/s PCIe", 16, h100, f"0000:0{n + 1}:00.0")
        return found.replace("<pci ", '<pci vendor="0x10de" device="0x2330" ')

    m = machine(gpu(0) + gpu(1), 'arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143"')
    text = f"{links} links to others, and H100 SXM5 has 18: NCCL takes the file's, and so do we; write the real number"
    assert [n.text for n in m.notes if n.kind is NoteKind.TRAP] == [text] * trap


EXPECTED = {
    "azure__ncv4-topo": {"itself", "gdr=0 on a NIC", "busid is missing", 'link_speed ""'},
    "azure__ndv2-topo": {"PCIe 3 in Xeon Platinum 8168"},
    "azure__ndv4-topo": set(),
    "azure__ndv5-topo": set(),
    "aws__p4d-24xl-topo": set(),
    "ibm__gx3d-160x1792x8h100-topo": {"artificial"},
    "rccl__topo_8p_940": set(),
    "rccl__topo_8p_90a": {"gdr=0: no GPUDirect"},
}


@pytest.mark.parametrize("name", EXPECTED)
def test_the_traps_of_real_files(name: str, data_folder: Path) -> None:
    m = nccl_xml.read(data_folder / "nccl_topo_xml" / f"{name}.xml")
    traps = [n.text for n in m.notes if n.kind is NoteKind.TRAP]
    assert len(traps) == len(EXPECTED[name]) and all(any(e in text for text in traps) for e in EXPECTED[name])
