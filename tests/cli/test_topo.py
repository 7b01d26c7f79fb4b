"""`ringtree topo`: list, show, detect."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ringtree.machines.catalogue import NAMES, machine
from ringtree.machines.files.reading import read
from ringtree.topology.fabrics import FABRICS
from tests.cli.conftest import Ringtree
from tests.machines.sysfs_trees import gpu_server
from tests.machines.test_peer_access import two


def test_list_has_every_machine_and_network(ringtree: Ringtree) -> None:
    out = ringtree("topo", "list").out
    machines, networks = out.split("\n\n")
    assert [line.split()[0] for line in machines.splitlines()[1:]] == list(NAMES)
    assert [line.split()[0] for line in networks.splitlines()[1:]] == list(FABRICS)
    assert "8 × H100 SXM5" in out and "NVSwitch, 18 × NVLink 4, 450 GB/s a GPU" in out and "8 × 400 Gb/s" in out
    record = json.loads(ringtree("topo", "list", "--json").out)
    assert [m["name"] for m in record["machines"]] == list(NAMES) and record["fabrics"][0]["name"] == next(
        iter(FABRICS)
    )


def test_show_draws_a_machine(ringtree: Ringtree) -> None:
    got = ringtree("topo", "show", "dgx-1-v100")
    assert got.code == 0 and got.out.startswith("dgx-1-v100: 8 GPUs, 2 NUMA nodes")
    for part in ("├─ gpu0  NVIDIA V100 SXM2", "path  GPU0", "GB/s  GPU0", "P2P ", "GPUDirect RDMA", "ring  "):
        assert part in got.out
    assert "source" not in got.out and "source " in ringtree("topo", "show", "dgx-1-v100", "--sources").out


def test_show_takes_a_part_and_several(ringtree: Ringtree) -> None:
    assert ringtree("topo", "show", "dgx-h100", "--gpus", "0,4").out.startswith("dgx-h100: 2 GPUs")
    assert ringtree("topo", "show", "dgx-h100", "--gpus", "7,").out.startswith("dgx-h100: 1 GPU")
    out = ringtree("topo", "show", "dgx-h100", "--nodes", "4", "--fabric", "roce").out
    assert out.splitlines()[1].startswith("4 of them, 32 GPUs: rails over roce, ") and "NIC0 → " in out


def test_written_files_read_back(ringtree: Ringtree, tmp_path: Path) -> None:
    files = {form: str(tmp_path / f"machine.{form}") for form in ("json", "xml", "html")}
    got = ringtree("topo", "show", "dgx-a100", *(word for form, file in files.items() for word in (f"--{form}", file)))
    assert got.code == 0 and len(got.out.splitlines()) == 3
    assert read(files["json"]).links == machine("dgx-a100").links
    assert {d.name for d in read(files["xml"]).devices} == {d.name for d in machine("dgx-a100").devices}
    assert Path(files["html"]).read_text(encoding="utf-8").startswith("<!doctype html>")


def test_a_file_is_not_written_over_itself(ringtree: Ringtree, tmp_path: Path) -> None:
    file = tmp_path / "machine.json"
    assert ringtree("topo", "show", "dgx-1-p100", "--json", str(file)).code == 0
    before = file.read_bytes()
    got = ringtree("topo", "show", str(file), "--json", str(file))
    assert got.code == 1 and "expected another file" in got.err and file.read_bytes() == before


@pytest.mark.parametrize(
    "words", ["--copies 0,1 --graph g.xml", "--json q.json --graph g.xml", "--xml q.xml --copies 0,1"]
)
def test_what_is_not_drawn_is_refused(ringtree: Ringtree, tmp_path: Path, words: str) -> None:
    """The graph file need not even be there."""
    got = ringtree("topo", "show", "dgx-h100", *(w.replace("q.", f"{tmp_path}/q.") for w in words.split()))
    assert got.code == 1 and got.err.count("\n") == 1 and not list(tmp_path.iterdir())
    assert "is drawn on the terminal or a page (--html), not" in got.err


def test_assumptions_may_be_given(ringtree: Ringtree, tmp_path: Path) -> None:
    file = tmp_path / "cloud.xml"
    pci = "".join(
        f'<pci busid="000{k}:00:00.0" class="0x030200" link_speed="16 GT/s" link_width="16"/>' for k in range(2)
    )
    file.write_text(f'<system version="1"><cpu numaid="0" arch="x86_64">{pci}</cpu></system>')
    assert "H100 SXM5" in ringtree("topo", "show", str(file), "--assume", "gpu=h100-sxm").out
    assert "expected such as gpu=h100-sxm" in ringtree("topo", "show", str(file), "--assume", "h100").err


@pytest.mark.parametrize("command", ["topo show", "plan all_reduce --bytes 1M --topology"])
@pytest.mark.parametrize(
    ("assume", "expected"),
    [
        ("gpu=a100-pcie-40gb", "--assume gpu=: not used: the file has it, which takes precedence; leave it out"),
        ("gpu=mi300x", "--assume gpu=: not used: the file has it, which takes precedence; leave it out"),
        ("nic=100Gb/s", "--assume nic=: not used: the file has none; leave it out"),
        ("nvlink=none,nvlink=pairs", "assume nvlink= twice, none and pairs: expected one"),
    ],
)
def test_assumptions_that_change_nothing_are_refused(
    ringtree: Ringtree, tmp_path: Path, command: str, assume: str, expected: str
) -> None:
    file = tmp_path / "cloud.xml"
    slot = '<pci busid="000{}:00:00.0" class="0x030200" vendor="0x10de" device="0x20b0" link_speed="16 GT/s"/>'
    slots = "".join(slot.format(n) for n in range(2))
    file.write_text(f'<system version="1"><cpu numaid="0" arch="x86_64">{slots}</cpu></system>')
    got = ringtree(*command.split(), str(file), "--assume", assume)
    assert got.code == 1 and got.err.count("\n") == 1 and got.err.endswith(f": {expected}\n")


def test_detect_describes_a_machine_and_writes_it(ringtree: Ringtree, tmp_path: Path) -> None:
    gpu_server(tmp_path)
    got = ringtree("topo", "detect", "--root", str(tmp_path))
    assert got.code == 0 and "8 GPUs, 2 NUMA nodes" in got.out
    assert "trap     pci2: its PCIe link runs at 32 GT/s x8 of at most 32 GT/s x16" in got.out
    file = tmp_path / "here.json"
    assert ringtree("topo", "detect", "--root", str(tmp_path), "--json", str(file)).code == 0
    assert len(read(file).gpus) == 8


def test_detect_describes_this_machine(ringtree: Ringtree) -> None:
    got = ringtree("topo", "detect")
    assert got.code == 0 and not got.err and "cpu0" in got.out


def test_copies_show_the_routes_side_by_side(ringtree: Ringtree) -> None:
    out = ringtree("topo", "show", "dgx-a100", "--copies", "0,gpu4").out
    assert out.startswith("dgx-a100: from gpu0 to gpu4, and to another such machine\n")
    assert "✓ P2P" in out and "  tcp " in out and "GPUDirect RDMA" in out


def test_nothing_is_written_if_one_format_cannot_hold_it(ringtree: Ringtree, tmp_path: Path) -> None:
    """NCCL's format hangs all on CPUs; JSON and the page do not."""
    file = tmp_path / "gpus.json"
    file.write_text('{"machine": "m", "devices": [{"name": "a", "kind": "gpu"}, {"name": "b", "kind": "gpu"}]}')
    forms = [word for form in ("json", "xml", "html") for word in (f"--{form}", str(tmp_path / f"out.{form}"))]
    got = ringtree("topo", "show", str(file), *forms)
    assert got.code == 1 and "m has no CPU; expected one" in got.err and not list(tmp_path.glob("out.*"))


def test_the_rings_of_a_graph_file_are_shown(ringtree: Ringtree, tmp_path: Path) -> None:
    graph, page = tmp_path / "graph.xml", tmp_path / "page.html"
    one = '<channel><gpu dev="0"/><gpu dev="2"/><gpu dev="1"/><gpu dev="3"/></channel>'
    attributes = (
        'pattern="4" crossnic="0" speedintra="12" speedinter="12" typeintra="SYS" typeinter="PIX" samechannels="0"'
    )
    graph.write_text(f'<graphs version="1"><graph id="0" nchannels="1" {attributes}>{one}</graph></graphs>')
    show = ("topo", "show", "azure-nc96", "--graph", str(graph))
    assert "ring  1 channel, 12 GB/s each over SYS\n  0 → 2 → 1 → 3 → 0" in ringtree(*show).out
    assert ringtree(*show, "--html", str(page)).code == 0 and page.exists()
    assert "no such gpu in the machine" in ringtree(*show, "--gpus", "2").err
    assert "--graph FILE` shows it" in ringtree("topo", "show", str(graph)).err
    assert ringtree(*show, "--html", str(graph)).code != 0


def test_detect_lists_pairs_of_gpus_that_something_hinders(ringtree: Ringtree, tmp_path: Path) -> None:
    two(tmp_path / "far", roots=("10", "50"))
    got = ringtree("topo", "detect", "--root", str(tmp_path / "far"))
    assert got.code == 0 and "gpu0-gpu1: access: the driver was not asked; they are below" in " ".join(got.out.split())
    two(tmp_path / "near")
    assert "gpu0-gpu1" not in ringtree("topo", "detect", "--root", str(tmp_path / "near")).out
