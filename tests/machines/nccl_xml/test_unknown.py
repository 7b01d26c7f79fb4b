"""GPUs that no table knows, or not by their ids: named, and nothing taken in their place."""

from __future__ import annotations

import pytest

from ringtree.machines.files import nccl_xml
from ringtree.machines.files.xml_elements import elements
from ringtree.machines.machine import LinkKind, Machine, NoteKind


def machine(inside: str, version: int = 1, **assume: str) -> Machine:
    cpu = '<cpu numaid="0" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="1">'
    text = f'<system version="{version}">{cpu}{inside}</cpu></system>'
    return nccl_xml.machine_of(elements(text.encode(), "topo.xml"), assume)


def slot(n: int, inside: str = "", ids: str = "", speed: str = "64.0 GT/s PCIe", code: str = "0x030200") -> str:
    return f'<pci busid="000{n}:00:00.0" class="{code}" {ids} link_speed="{speed}" link_width="16">{inside}</pci>'


def gpu(n: int, attributes: str, ids: str = "", link: str = "") -> str:
    return slot(n, f'<gpu dev="{n}" rank="{n}" gdr="1" {attributes}>{link}</gpu>', ids)


def unknown(m: Machine) -> list[str]:
    return [n.text for n in m.notes if n.kind is NoteKind.UNKNOWN]


def nvlinks(m: Machine) -> set[tuple[int, int]]:
    return {(k.generation, k.width) for k in m.links if k.kind is LinkKind.NVLINK}


SWITCHED = '<nvlink target="fffffff:ff:ff.0" count="18" tclass="0x068000"/>'
B300 = 'vendor="0x10de" device="0x3182"'


@pytest.mark.parametrize(
    "inside",
    [
        "".join(gpu(n, 'sm="103"', B300, SWITCHED) for n in range(8)),
        "".join(slot(n, ids=B300) for n in range(8)),
        "".join(slot(n, ids=B300, speed="32.0 GT/s PCIe") for n in range(8)),
    ],
)
def test_a_b300_is_a_b300(inside: str) -> None:
    m = machine(inside)
    assert {(m.devices[g].model, m.devices[g].sm) for g in m.gpus} == {("B300", 103)}
    assert nvlinks(m) == {(5, 18)}
    assert not unknown(m)


@pytest.mark.parametrize("count", [2, 4, 8])
def test_gpus_of_pcie_6_without_ids_are_no_h100(count: int) -> None:
    m = machine("".join(slot(n) for n in range(count)))
    assert {m.devices[g].model for g in m.gpus} == {"B300"}
    assert any("its device id is missing: taken as B300" in n.text for n in m.notes)


def test_an_id_that_no_table_has_is_known_by_its_sm_alone() -> None:
    m = machine("".join(gpu(n, 'sm="103"', 'vendor="0x10de" device="0x9999"', SWITCHED) for n in range(2)))
    assert {(m.devices[g].model, m.devices[g].sm) for g in m.gpus} == {("", 103)}
    assert nvlinks(m) == {(5, 18)}
    assert unknown(m) == ["[10de:9999] is in no table: known by sm 103 alone"]


@pytest.mark.parametrize(
    ("attributes", "ids", "words"),
    [
        ('sm="110"', "", "no table has the figures of its nvlink links: left out; assume gpu=MODEL"),
        ("", "", "its device id is missing: its model and links are left open; assume gpu=MODEL"),
        ("", 'vendor="0x10de" device="0x9999"', "[10de:9999] is in no table: its model and links are left open"),
    ],
)
def test_nvlinks_of_no_known_generation_are_left_out(attributes: str, ids: str, words: str) -> None:
    two = "".join(gpu(n, attributes, ids, SWITCHED) for n in range(2))
    m = machine(two)
    assert len(m.gpus) == 2 and not nvlinks(m)
    assert any(words in text for text in unknown(m))
    given = machine(two, gpu="b300")
    assert nvlinks(given) == {(5, 18)}
    assert {given.devices[g].model for g in given.gpus} == {"B300"}
    assert not any("not used" in n.text for n in given.notes)


@pytest.mark.parametrize(
    ("gcn", "ids", "model", "each_GBps"),
    [
        ("910", 'vendor="0x1002" device="0x7408"', "MI250X", 50),
        ("910", "", "", 50),  # MI210, MI250 or MI250X: their links are the same
        ("908", "", "MI100", 46),
        ("gfx942", "", "", 64),
        ("gfx1250", "", "", 0),
    ],
)
def test_an_architecture_of_several_models_leaves_the_model_open(
    gcn: str, ids: str, model: str, each_GBps: int
) -> None:
    link = '<xgmi target="000{}:00:00.0" count="2" tclass="0x030200"/>'
    m = machine("".join(gpu(n, f'sm="104" gcn="{gcn}"', ids, link.format(1 - n)) for n in range(2)), version=2)
    assert {(m.devices[g].vendor, m.devices[g].model) for g in m.gpus} == {("amd", model)}
    assert {k.bandwidth_Bps for k in m.links if k.kind is LinkKind.XGMI} == ({2e9 * each_GBps} if each_GBps else set())
    assert bool(unknown(m)) == (not model)
    assert all(gcn in text or "xgmi" in text for text in unknown(m))


def test_an_accelerator_that_no_table_has_is_left_out_by_name() -> None:
    m = machine(slot(1, ids='vendor="0x8086" device="0x0b2b"', code="0x120000") + slot(2, ids=B300))
    assert [m.devices[g].model for g in m.gpus] == ["B300"]
    assert unknown(m) == ["the accelerator [8086:0b2b] is in no table: left out, whatever it computes"]
