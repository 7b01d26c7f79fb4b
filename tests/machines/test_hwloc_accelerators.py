"""Accelerators in hwloc's XML: those that a table knows, those that none does, and the xGMI links between AMD's."""

from __future__ import annotations

import pytest

from ringtree.machines.files import hwloc_xml
from ringtree.machines.files.xml_elements import elements
from ringtree.machines.machine import LinkKind, Machine, NoteKind


def device(n: int, code: str, ids: str, inside: str = "") -> str:
    return (
        f'<object type="PCIDev" gp_index="{100 + n}" pci_busid="0000:{n:02x}:00.0" '
        f'pci_type="{code} [{ids}] [{ids}] 00" pci_link_speed="31.507692">{inside}</object>'
    )


def driver(n: int, model: str = "") -> str:
    info = f'<info name="GPUModel" value="{model}"/>' if model else ""
    return f'<object type="OSDev" gp_index="{200 + n}" name="rsmi{n}" osdev_type="5">{info}</object>'


def matrix(name: str, values: list[list[int]]) -> str:
    count = len(values)
    indexes = " ".join(str(200 + n) for n in range(1, count + 1))
    cells = " ".join(str(v) for row in values for v in row)
    inside = f"<indexes>{indexes}</indexes><u64values>{cells}</u64values>"
    return f'<distances2 nbobjs="{count}" name="{name}">{inside}</distances2>'


def machine(devices: str, matrices: str = "", arch: str = "x86_64", **assume: str) -> Machine:
    bridge = f'<object type="Bridge" bridge_type="0-1">{devices}</object>'
    node = f'<object type="NUMANode" os_index="0" cpuset="0x1" nodeset="0x1">{bridge}</object>'
    info = f'<info name="Architecture" value="{arch}"/>'
    top = f'<object type="Machine" nodeset="0x1">{info}{node}</object>'
    text = f'<topology version="2.0">{top}{matrices}</topology>'
    return hwloc_xml.machine_of(elements(text.encode(), "topo.xml"), assume)


def unknown(m: Machine) -> list[str]:
    return [f"{n.about}: {n.text}" for n in m.notes if n.kind is NoteKind.UNKNOWN]


def models(m: Machine) -> list[str]:
    return [m.devices[n].model for n in m.gpus]


@pytest.mark.parametrize(
    ("code", "ids", "model"),
    [
        ("0300", "1002:66a1", "MI50"),  # with a connector for a screen
        ("0380", "1002:66a1", "MI50"),
        ("0300", "1002:6860", "MI25"),
        ("0380", "1002:7408", "MI250X"),
        ("1200", "1002:74a1", "MI300X"),
        ("0302", "10de:3182", "B300"),
        ("1200", "19e5:d802", "Ascend 910B"),
    ],
)
def test_a_model_of_the_tables_is_a_gpu_by_its_id_whatever_its_class(code: str, ids: str, model: str) -> None:
    m = machine(device(1, code, ids))
    assert models(m) == [model]
    assert not unknown(m)


@pytest.mark.parametrize(
    ("code", "ids", "words"),
    [
        ("1200", "8086:0b2b", "accelerator [8086:0b2b]"),  # an FPGA
        ("1200", "1da3:1020", "accelerator [1da3:1020]"),
        ("0380", "8086:0bd5", "display controller [8086:0bd5]"),
        ("0302", "8086:0bd5", "3D controller [8086:0bd5]"),
        ("0300", "1002:9999", "display [1002:9999]"),
    ],
)
def test_what_no_table_knows_is_named_and_no_gpu(code: str, ids: str, words: str) -> None:
    m = machine(device(1, code, ids))
    assert not m.gpus
    assert unknown(m) == [f"0000:01:00.0: the {words} is in no table: left out, whatever it computes"]


def test_a_display_in_which_a_library_computes_is_a_gpu_of_its_maker() -> None:
    name = '<info name="PCIDevice" value="Navi 99 [Radeon Something]"/>'
    m = machine(device(1, "0300", "1002:9999", name + driver(1)))
    assert models(m) == [""]
    assert "[1002:9999] (Navi 99 [Radeon Something]) is in no table: its model" in unknown(m)[0]
    m = machine(device(1, "0300", "1002:9999", name))
    assert not m.gpus and "the display [1002:9999] (Navi 99 [Radeon Something]) is in no table" in unknown(m)[0]
    assert not machine(device(1, "0380", "8086:0bd5", driver(1))).gpus  # neither NCCL nor RCCL runs on it


def test_the_list_of_pci_ids_names_a_model_where_it_names_one() -> None:
    for text, model in (("Aqua Vanjaram [Instinct MI300A]", "MI300A"), ("Aldebaran [Instinct MI250X/MI250]", "")):
        named = f'<info name="PCIDevice" value="{text}"/>'
        assert models(machine(device(1, "0380", "1002:9999", named))) == [model]


@pytest.mark.parametrize("ids", ["1a03:2000", "102b:0536", "8086:4c8a"])
def test_a_console_is_nothing_to_report(ids: str) -> None:
    m = machine(device(1, "0300", ids))
    assert not m.gpus and not unknown(m)


def test_a_gpu_of_an_unknown_id_has_no_model_until_one_is_given() -> None:
    eight = "".join(device(n, "0302", "10de:9999", driver(n, "NVIDIA Z900")) for n in range(1, 9))
    m = machine(eight)
    assert models(m) == [""] * 8
    assert not [k for k in m.links if k.kind is LinkKind.NVLINK]
    assert "[10de:9999] (NVIDIA Z900) is in no table: its model and links are left open" in unknown(m)[0]
    m = machine(eight, gpu="b300")
    assert models(m) == ["B300"] * 8 and not unknown(m)
    assert {k.width for k in m.links if k.kind is LinkKind.NVLINK} == {18}


def test_a_drivers_name_of_a_known_model_counts() -> None:
    m = machine("".join(device(n, "0302", "10de:9999", driver(n, "NVIDIA B300 SXM6 AC")) for n in range(1, 9)))
    assert models(m) == ["B300"] * 8 and not unknown(m)


# The GCDs of a node of four MI250X: four links to the other of a package, one or two to some others.
GCDS = {(0, 1): 4, (2, 3): 4, (4, 5): 4, (6, 7): 4, (0, 2): 1, (0, 6): 2, (1, 3): 1, (1, 5): 1, (2, 4): 2, (3, 7): 1,
        (4, 6): 1, (5, 7): 1}  # fmt: skip
MI250X = "".join(device(n, "0380", "1002:7408", driver(n)) for n in range(1, 9))


def square(of: dict[tuple[int, int], int], each: int, else_: int = 0) -> list[list[int]]:
    return [
        [1_000_000 if a == b else each * of[min(a, b), max(a, b)] if (min(a, b), max(a, b)) in of else else_
         for b in range(8)] for a in range(8)
    ]  # fmt: skip


def xgmi(m: Machine) -> dict[tuple[int, int], int]:
    position = {g: k for k, g in enumerate(m.gpus)}
    return {(position[k.source], position[k.target]): k.width for k in m.links if k.kind is LinkKind.XGMI}


BOTH_WAYS = GCDS | {(b, a): n for (a, b), n in GCDS.items()}


def test_gcds_have_as_many_links_as_the_matrix_says_and_not_all_pairs() -> None:
    m = machine(MI250X, matrix("XGMIBandwidth", square(GCDS, 50_000)))
    assert xgmi(m) == BOTH_WAYS
    assert not unknown(m)


def test_pairs_that_others_lie_between_are_not_joined() -> None:
    hops = [[0 if a == b else 1 if (a, b) in BOTH_WAYS else 2 for b in range(8)] for a in range(8)]
    m = machine(MI250X, matrix("XGMIHops", hops) + matrix("XGMIBandwidth", square(GCDS, 50_000, else_=50_000)))
    assert xgmi(m) == BOTH_WAYS


@pytest.mark.parametrize(
    ("matrices", "why"),
    [
        ("", "links between GPUs: the file does not list the xGMI of MI250X, which differs from pair to pair"),
        (matrix("XGMIBandwidth", square({}, 1, else_=100_000)), "100000 for every pair is hwloc's constant for xGMI"),
        (matrix("XGMIBandwidth", square(GCDS, 50_000, else_=50_000)), "where a MI250X has 8"),
    ],
)
def test_where_the_file_gives_no_numbers_of_links_none_are_guessed(matrices: str, why: str) -> None:
    m = machine(MI250X, matrices)
    assert len(m.gpus) == 8 and not xgmi(m)
    assert any(why in text for text in unknown(m))
    assert set(xgmi(machine(MI250X, matrices, nvlink="mesh")).values()) == {1}


@pytest.mark.parametrize(("ids", "count", "joined"), [("1002:74a1", 8, 1), ("1002:74a1", 4, 1), ("1002:738c", 4, 0)])
def test_only_a_board_that_is_all_to_all_is_taken_for_it(ids: str, count: int, joined: int) -> None:
    m = machine("".join(device(n, "1200", ids) for n in range(1, count + 1)))
    assert set(xgmi(m).values()) == ({joined} if joined else set())
    assert len(xgmi(m)) == count * (count - 1) * joined
    assert bool(unknown(m)) != bool(joined)


@pytest.mark.parametrize(("count", "layout"), [(2, "go to NVSwitches"), (4, "from GPU to GPU")])
def test_an_assumed_layout_is_that_of_so_many_gpus(count: int, layout: str) -> None:
    """Two GH200 of a tray and four of a board differ."""
    m = machine("".join(device(n, "0302", "10de:2342") for n in range(1, count + 1)))
    (text,) = (note.text for note in m.notes if note.about == "links between GPUs")
    assert layout in text and f"as {count} GH200 96GB mostly have; if not" in text


def test_on_power_nvlinks_are_no_mesh() -> None:
    volta = "".join(device(n, "0302", "10de:1db1") for n in range(1, 5))
    assert {k.kind for k in machine(volta).links} == {LinkKind.PCIE, LinkKind.NVLINK}
    power = machine(volta, arch="ppc64le")
    assert {k.kind for k in power.links} == {LinkKind.PCIE}
    assert "some of which lead to the CPU on Power" in unknown(power)[0]


def test_links_of_a_model_that_no_table_has_are_named_and_left_out() -> None:
    two = "".join(device(n, "1200", "1002:9999", driver(n)) for n in (1, 2))
    m = machine(two, matrix("XGMIBandwidth", [[0, 64000], [64000, 0]]))
    assert len(m.gpus) == 2 and not xgmi(m)
    assert any("the links of 0000:01:00.0 [1002:9999] are in no table" in text for text in unknown(m))
