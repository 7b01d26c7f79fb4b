"""`nvidia-smi topo -m`: the machine that is built gives the matrix back."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringtree.machines.files import nvidia_smi
from ringtree.machines.files.distance_matrix import distance_matrix
from ringtree.machines.files.nccl_xml import unused
from ringtree.machines.machine import DeviceKind, LinkKind, Machine, NoteKind, PathKind
from ringtree.machines.paths import Paths
from tests.effort import counted

LEGEND = """
Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA node

NIC Legend:

  NIC0: mlx5_0
  NIC1: mlx5_1
"""
TAIL = ["CPU Affinity", "NUMA Affinity", "GPU NUMA ID"]


def text(names: list[str], cells: list[list[str]], tails: list[list[str]], colour: bool = True, tab: str = "\t") -> str:
    start, end = ("\x1b[4m", "\x1b[0m") if colour else ("", "")
    lines = [start + tab + tab.join([*names, *TAIL]) + end]
    for name, row, tail in zip(names, cells, tails, strict=True):
        shown = [" X " if c == "X" else c for c in row]
        lines.append(tab.join([name, *shown, *tail]))
    return "\n".join(lines) + "\n" + LEGEND


def square(names: list[str], pairs: dict[tuple[str, str], str], default: str = "SYS") -> list[list[str]]:
    either = {**pairs, **{(b, a): cell for (a, b), cell in pairs.items()}}
    return [["X" if a == b else either.get((a, b), default) for b in names] for a in names]


def machine(matrix: str, **assume: str) -> Machine:
    return nvidia_smi.parse(matrix.encode(), "smi.txt", assume)


def given_back(m: Machine, names: list[str], cells: list[list[str]]) -> list[list[str]]:
    """The matrix of a machine: NVLinks by their number, the rest by the path over PCIe alone."""
    bare = Paths(replace(m, links=tuple(k for k in m.links if k.kind is not LinkKind.NVLINK)))
    wired = Paths(m)
    number = [m.device({"NIC0": "mlx5_0", "NIC1": "mlx5_1"}.get(n, n.lower())) for n in names]
    back = []
    for a, row in zip(number, cells, strict=True):
        back.append([])
        for b, cell in zip(number, row, strict=True):
            if cell.startswith("NV"):
                path = wired.between(a, b)
                assert path.kind is PathKind.NVL
                back[-1].append(f"NV{min(m.links[k].width for k in path.links)}")
            else:
                kind = "X" if a == b else bare.between(a, b).kind.name
                back[-1].append("NODE" if kind == "PHB" == cell.replace("NODE", "PHB") and cell == "NODE" else kind)
    return back


EIGHT = [f"GPU{n}" for n in range(8)]
HYBRID = "01:1 02:1 03:2 04:2 12:2 13:1 15:2 23:2 26:1 37:1 45:1 46:1 47:2 56:2 57:1 67:2"
CUBE = {(f"GPU{p[0]}", f"GPU{p[1]}"): f"NV{p[3]}" for p in HYBRID.split()}
SOCKETS = [["0-19", "0", "N/A"]] * 4 + [["20-39", "1", "N/A"]] * 4
NICS = ["NIC0", "NIC1"]
ALL_NV12 = {(a, b): "NV12" for a in EIGHT for b in EIGHT if a != b}
NEAR_NIC0 = {("GPU0", "NIC0"): "PXB", ("GPU1", "NIC0"): "PXB", ("GPU2", "NIC0"): "NODE", ("GPU3", "NIC0"): "NODE"}
NEAR_NIC1 = {("GPU4", "NIC1"): "PIX", ("GPU5", "NIC1"): "PHB", ("GPU6", "NIC1"): "NODE", ("GPU7", "NIC1"): "NODE"}
ON_SOCKET = {(a, b): "NODE" for q in (EIGHT[:4], EIGHT[4:]) for a in q for b in q if a < b}
PAIRS = {("GPU0", "GPU1"): "NV12", ("GPU2", "GPU3"): "NV12"}
SWITCHES = {("GPU0", "GPU1"): "PIX", ("GPU2", "GPU3"): "PXB"}
UNSAID = [["", "", ""]]
CASES: dict[str, tuple[list[str], list[list[str]], list[list[str]]]] = {
    "dgx-a100 like": (
        [*EIGHT, *NICS],
        square([*EIGHT, *NICS], ALL_NV12 | NEAR_NIC0 | NEAR_NIC1),
        [*SOCKETS, [], []],
    ),
    "dgx-1 like": (EIGHT, square(EIGHT, ON_SOCKET | CUBE), SOCKETS),
    "pairs of cards": (EIGHT[:4], square(EIGHT[:4], PAIRS), SOCKETS[2:6]),
    "cards on switches": (EIGHT[:4], square(EIGHT[:4], SWITCHES, "PHB"), UNSAID * 4),
    "one GPU": (["GPU0"], [["X"]], [["0-7", "N/A", "N/A"]]),
    "one GPU and a NIC": (["GPU0", "NIC0"], [["X", "PHB"], ["PHB", "X"]], [["0-7", "0", "N/A"], []]),
}


@pytest.mark.parametrize("shape", ["tabs and colours", "blanks"])
@pytest.mark.parametrize("name", CASES)
def test_the_matrix_is_given_back(name: str, shape: str) -> None:
    names, cells, tails = CASES[name]
    if shape == "blanks":
        matrix = text(names, cells, tails, colour=False, tab="   ").replace("   X   ", "  X  ")
    else:
        matrix = text(names, cells, tails)
    m = machine(matrix)
    assert given_back(m, names, cells) == cells
    nodes = {int(tail[1]) for tail in tails if tail and tail[1].isdecimal()}
    assert not nodes or {m.devices[n].numa for n in m.gpus} == nodes
    assert all(n.text for n in m.notes)


@st.composite
def trees(draw: st.DrawFn) -> tuple[list[str], list[list[str]]]:
    """Devices at the leaves of a tree: node, host bridge, switch above, switch."""
    positions = draw(st.lists(st.tuples(*[st.integers(0, 1)] * 4), min_size=1, max_size=10))
    nics = draw(st.integers(0, min(2, len(positions) - 1)))
    names = [f"GPU{n}" for n in range(len(positions) - nics)] + NICS[:nics]
    levels = ["SYS", "NODE", "PHB", "PXB", "PIX"]
    shared = [[next((k for k in range(4) if a[k] != b[k]), 4) for b in positions] for a in positions]
    cells = [["X" if i == j else levels[shared[i][j]] for j in range(len(positions))] for i in range(len(positions))]
    return names, cells


@given(trees())
def test_any_tree_is_given_back(tree: tuple[list[str], list[list[str]]]) -> None:
    names, cells = tree
    back = given_back(machine(text(names, cells, [["", "", ""]] * len(names))), names, cells)
    assert [[c.replace("NODE", "PHB") for c in row] for row in back] == [
        [c.replace("NODE", "PHB") for c in row] for row in cells
    ]


def test_gpus_are_known_by_their_nvlinks() -> None:
    names, cells, tails = CASES["dgx-a100 like"]
    m = machine(text(names, cells, tails))
    assert len(m.of_kind(DeviceKind.NVSWITCH)) == 1
    assert m.devices[m.gpus[0]].model == "A100 SXM4 40GB"
    assert m.devices[m.nics[0]].rate_Bps == 25e9
    m = machine(text(names, cells, tails), gpu="h100-sxm", nic="400Gb/s", gdr="0")
    assert (m.devices[m.gpus[0]].sm, m.devices[m.nics[0]].rate_Bps, m.devices[m.nics[0]].gdr) == (90, 50e9, False)
    assert all(n.about != "nvlink=" for n in m.notes)
    m = machine(text(names, cells, tails), nvlink="none")
    assert m.of_kind(DeviceKind.NVSWITCH) and [n.text[:8] for n in m.notes if n.about == "nvlink="] == ["not used"]
    names, cells, tails = CASES["dgx-1 like"]
    m = machine(text(names, cells, tails))
    assert not m.of_kind(DeviceKind.NVSWITCH)
    assert m.devices[m.gpus[0]].model == "V100 SXM2"
    names, cells, tails = CASES["pairs of cards"]
    assert machine(text(names, cells, tails)).devices[0].model == "A100 PCIe 80GB"


def test_models_of_another_maker_and_facts_of_no_nic_change_nothing() -> None:
    with pytest.raises(ValueError, match=r"smi\.txt: assume gpu=MI300X: it is amd's, and the file's GPUs are nvidia's"):
        machine(TWO, gpu="mi300x")
    m = machine(TWO, nic="400Gb/s", gdr="1")
    assert [(n.about, n.text) for n in unused(m)] == [("nic=, gdr=", "not used: the file has none")]


def test_other_models_of_as_many_nvlinks_are_named() -> None:
    names, cells, tails = CASES["dgx-a100 like"]
    eighteen = [[cell.replace("NV12", "NV18") for cell in row] for row in cells]
    (note,) = (n.text for n in machine(text(names, eighteen, tails)).notes if n.about == "GPUs")
    assert note.startswith("taken as H100 SXM5, by their NVLinks, of which ")
    assert all(model in note for model in ("H200 SXM5", "B200", "B300"))


def test_older_drivers_name_nics_in_the_columns_and_print_soc() -> None:
    matrix = "\tGPU0\tmlx5_0\tCPU Affinity\nGPU0\t X \tSOC\t0-7\nmlx5_0\tSOC\t X \t\n"
    m = machine(matrix)
    assert m.devices[m.nics[0]].name == "mlx5_0"
    assert Paths(m).between(m.gpus[0], m.nics[0]).kind is PathKind.SYS


def traps(m: Machine) -> list[tuple[str, str]]:
    return [(n.about, n.text) for n in m.notes if n.kind is NoteKind.TRAP]


@pytest.mark.parametrize(
    ("links", "model", "expected"),
    [
        (12, "a100-sxm4-40gb", ""),
        (24, "a100-sxm4-40gb", ""),  # the bound of other files: twice the model's
        (
            25,
            "a100-sxm4-40gb",
            "25 links to others, and A100 SXM4 40GB has 12: taken as written; write the real number",
        ),
        (40, "", "40 links to others, and no GPU of nvidia has more than 18: taken as written; write the real number"),
        (999, "l40s", "999 links to others, and L40S has 0: taken as written; write the real number"),
    ],
)
def test_more_nvlinks_than_a_gpu_has_are_a_trap(links: int, model: str, expected: str) -> None:
    names, cells, tails = CASES["dgx-a100 like"]
    matrix = text(names, [[c.replace("NV12", f"NV{links}") for c in row] for row in cells], tails)
    found = traps(machine(matrix, **({"gpu": model} if model else {})))
    assert found == ([("gpu0, gpu1, gpu2 and 5 more", expected)] if expected else [])


def test_numa_affinity_that_the_cells_contradict_is_a_trap() -> None:
    names = EIGHT[:4]
    near = {(a, b): "NODE" for a in names for b in names if a < b}
    tails = [["", str(n), "N/A"] for n in (0, 0, 1, 1)]
    m = machine(text(names, square(names, {}), tails))
    assert [m.devices[n].numa for n in m.gpus] == [0, 1, 2, 3]
    apart = "by their NUMA affinity, SYS apart by the cells: taken as 2 nodes, by the cells"
    assert traps(m) == [("NUMA node 0", f"GPU0, GPU1 {apart}"), ("NUMA node 1", f"GPU2, GPU3 {apart}")]
    joined = "apart by NUMA affinity, nearer than SYS by the cells: taken as one node, by the cells"
    assert traps(machine(text(names, square(names, near), tails))) == [("NUMA nodes 0, 1", joined)]


def test_numbers_with_gaps_are_local_ranks_and_a_note() -> None:
    names = ["GPU0", "GPU4", "GPU7"]
    m = machine(text(names, square(names, {}, "PHB"), UNSAID * 3))
    (note,) = (n.text for n in m.notes if n.about == "numbers of GPUs")
    assert note.endswith("also in --gpus: 1 is GPU4, 2 is GPU7")
    assert [m.devices[n].name for n in m.gpus] == ["gpu0", "gpu4", "gpu7"]
    assert all(n.about != "numbers of GPUs" for n in machine(TWO).notes)


TWO = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tPIX\t0-7\nGPU1\tPIX\t X \t0-7\n"


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("PIX\t X ", "PXB\t X ", "line 2, GPU0 to GPU1: PIX, but PXB the other way"),
        ("PIX\t X ", "NEAR\t X ", "line 3, GPU1 to GPU0: 'NEAR'; expected X, NV12"),
        ("PIX\t X \t0-7", "PIX", "line 3, GPU1: 1 cells; expected 2"),
        ("GPU1\tPIX\t X \t0-7\n", "", "no row of GPU1, which is a column of line 1"),
        ("GPU1\tPIX\t X \t0-7\n", "GPU0\t X \tPIX\t0-7\n", "line 3: a second row of GPU0"),
        ("\tGPU0\tGPU1\t", "\tGPU0\tGPU0\t", "line 1: a column twice"),
        (" X \tPIX", "PIX\tPIX", "line 2, GPU0 to GPU0: PIX; expected X"),
        ("PIX", "NV0", "line 2, GPU0 to GPU1: NV0; expected at least one"),
        ("\tGPU0\tGPU1\tCPU Affinity\n", "", "no line of columns; expected `GPU0 GPU1"),
        ("", "", ""),
    ],
)
def test_one_line_names_row_and_expectation(old: str, new: str, expected: str) -> None:
    if not expected:
        assert len(machine(TWO).gpus) == 2
        return
    with pytest.raises(ValueError) as refused:
        machine(TWO.replace(old, new))
    message = str(refused.value)
    assert message.startswith("smi.txt: ") and expected in message and "\n" not in message


def test_distances_of_no_tree_and_nvlinks_to_a_nic_are_refused() -> None:
    cells = square(EIGHT[:3], {("GPU0", "GPU1"): "PIX", ("GPU1", "GPU2"): "PIX", ("GPU0", "GPU2"): "SYS"})
    with pytest.raises(ValueError, match="GPU2 to GPU0: SYS, but both are nearer to others between; expected a tree"):
        machine(text(EIGHT[:3], cells, [["", "", ""]] * 3))
    with pytest.raises(ValueError, match="expected NVLinks between GPUs alone"):
        machine(text(["GPU0", "NIC0"], [["X", "NV4"], ["NV4", "X"]], [[], []]))


@pytest.mark.parametrize("count", [70, pytest.param(200, marks=pytest.mark.slow)])
@pytest.mark.parametrize("cell", ["NV12", "NODE", "SYS", "PIX"])
def test_many_devices_cost_by_their_pairs(cell: str, count: int) -> None:
    names = [f"GPU{n}" for n in range(count)]
    with counted() as effort:
        m = machine(text(names, square(names, {}, cell), [["", "", ""]] * count))
    assert len(m.gpus) == count and effort.calls < 100 * count**2
    with pytest.raises(ValueError, match="expected a matrix of at most"):
        nvidia_smi.parse(b" " * 2**21, "smi.txt")


def test_the_matrix_keeps_the_text() -> None:
    names, cells, tails = CASES["dgx-a100 like"]
    matrix = distance_matrix(text(names, cells, tails).encode(), "smi.txt")
    assert list(map(list, matrix.cells)) == cells
    assert matrix.called == {"NIC0": "mlx5_0", "NIC1": "mlx5_1"}
    assert matrix.numa == ("0",) * 4 + ("1",) * 4 + ("",) * 2
