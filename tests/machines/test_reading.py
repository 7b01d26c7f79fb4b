"""Any format by the file's content, and machines by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from ringtree import topology
from ringtree.machines import catalogue
from ringtree.machines.files import machine_json, nccl_xml, reading
from ringtree.machines.machine import DeviceKind


@pytest.mark.parametrize("name", ["a.xml", "a.json", "a", "a.txt"])
def test_the_format_is_decided_by_the_content(name: str, tmp_path: Path) -> None:
    machine = catalogue.machine("dgx-h100")
    path = tmp_path / name
    for text in (machine_json.text(machine), nccl_xml.text(machine), "\ufeff\n <!-- -->" + nccl_xml.text(machine)):
        path.write_text(text)
        assert [d.name for d in reading.read(path).devices if d.sm] == [f"gpu{n}" for n in range(8)]


def test_every_real_file_is_read_or_named(data_folder: Path) -> None:
    files = sorted((data_folder / "nccl_topo_xml").glob("*.xml"))
    assert len(files) == 22
    for file in files:
        if "<graphs" in file.read_text():
            with pytest.raises(ValueError, match=r"an NCCL graph file.*topo show MACHINE --graph FILE"):
                reading.read(file)
        else:
            assert reading.read(file).gpus


def test_other_files_are_named_by_format(tmp_path: Path) -> None:
    path = tmp_path / "x"
    topology.save(topology.ring(4), path)
    with pytest.raises(ValueError, match=r"a topology of ranks and links.*ringtree\.topology\.load reads it"):
        reading.read(path)
    for text, expected in (
        ("hello", "no form that is known"),
        ("<a/>", "line 1, <a>: expected a"),
        ("{}", "expected a"),
    ):
        path.write_text(text)
        with pytest.raises(ValueError, match=f"^{path}: .*{expected}"):
            reading.read(path)


def test_text_in_utf_16_is_named_and_xml_in_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "topo.txt"
    path.write_text("\tGPU0\nGPU0\tX\n", "utf-16")
    with pytest.raises(ValueError, match=r"topo\.txt: is UTF-16, as PowerShell's > writes it; expected UTF-8"):
        reading.read(path)
    path.write_text('<?xml version="1.0" encoding="utf-16"?><system version="1"><cpu numaid="0"/></system>', "utf-16")
    assert reading.read(path).of_kind(DeviceKind.CPU)


def test_a_machine_is_found_by_name_or_file(tmp_path: Path) -> None:
    path = tmp_path / "mine"
    machine_json.write(catalogue.machine("dgx-2"), path)
    assert len(reading.find("dgx-a100").gpus) == 8
    assert len(reading.find(path).gpus) == 16


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("dgx-h10", "nearest are dgx-h100"),
        ("DGX-H100", "nearest are dgx-h100"),
        ("zzz", "known are dgx-1-p100"),
        ("", "known are dgx-1-p100"),
        ("none/such", "no such file; expected a machine"),
        ("topo.xml", "no such file; expected a machine"),
        ("x" * 300, "neither a machine's name nor a file"),
    ],
)
def test_an_unknown_name_gets_the_nearest_names(name: str, expected: str) -> None:
    with pytest.raises(ValueError, match=expected) as refused:
        reading.find(name)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("assume", "expected"),
    [
        ({"gpus": "8"}, "assume 'gpus': expected one of gpu="),
        ({"gpu": "a100"}, "matches several: expected one of A100 SXM4 40GB"),
        ({"gpu": "k80"}, "is none that is known"),
        ({"gpu": ""}, "is none that is known"),
        ({"nic": "fast"}, "assume nic='fast': expected a rate such as 400Gb/s"),
        ({"nic": "0Gb/s"}, "expected a rate"),
        ({"nvlink": "ring"}, "expected one of nvswitch, mesh, pairs, none"),
        ({"gdr": "yes"}, "expected 0 or 1"),
    ],
)
def test_an_assumption_that_is_none_is_refused(assume: dict[str, str], expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        nccl_xml.machine_of(topology_of_clouds(), assume)


def topology_of_clouds(gpus: int = 8) -> reading.elements:  # type: ignore[valid-type]
    slot = '<pci busid="000{}:00:00.0" class="{}" link_speed="16 GT/s" link_width="16"/>'
    slots = "".join(slot.format(n, "0x030200") for n in range(1, gpus + 1)) + slot.format(0, "0x020700")
    text = f'<system version="1"><cpu numaid="0" arch="x86_64" vendor="AuthenticAMD" familyid="23" modelid="49">{slots}</cpu></system>'  # noqa: E501
    return reading.elements(text.encode(), "cloud.xml")


@pytest.mark.parametrize(
    ("given", "model", "nvlinks", "rate_Gbps"),
    [
        ("", "A100 SXM4 40GB", {12}, 200),
        ("gpu=v100-sxm2,nic=100Gb", "V100 SXM2", {1, 2}, 100),
        ("gpu=h100-sxm, nic=400Gb/s", "H100 SXM5", {18}, 400),
        ("gpu=a100-pcie-80gb,nvlink=pairs", "A100 PCIe 80GB", {12}, 200),
        ("gpu=mi300x,nvlink=mesh", "MI300X", {1}, 200),
        ("gpu=l40s", "L40S", set(), 200),
        ("nvlink=none", "A100 SXM4 40GB", set(), 200),
    ],
)
def test_given_values_go_before_assumed_ones(given: str, model: str, nvlinks: set[int], rate_Gbps: int) -> None:
    machine = nccl_xml.machine_of(topology_of_clouds(), nccl_xml.assumptions(given))
    assert {machine.devices[n].model for n in machine.gpus} == {model}
    assert {k.width for k in machine.links if k.kind.value in ("nvlink", "xgmi")} == nvlinks
    assert machine.devices[machine.nics[0]].rate_Bps == rate_Gbps * 1e9 / 8
    assert any("assume" in n.text or "as it was given" in n.text for n in machine.notes)


def test_values_in_the_file_go_before_those_given() -> None:
    ids = 'class="0x030200" vendor="0x10de" device="0x2330"'
    slot = '<pci busid="000{n}:00:00.0" ' + ids + ' link_speed="32 GT/s" link_width="16">'
    slot += '<gpu dev="{n}" sm="90" rank="{n}" gdr="1"/></pci>'
    slots = "".join(slot.format(n=n) for n in range(8))
    root = reading.elements(f'<system version="1"><cpu numaid="0">{slots}</cpu></system>'.encode(), "topo.xml")
    notes = [n.text for n in nccl_xml.machine_of(root, {"gpu": "l40s", "nic": "400Gb/s"}).notes]
    for text in ("not used: the file has it", "not used: the file has none", "NCCL would query the driver: none"):
        assert sum(text in s for s in notes) == 1
    switched = nccl_xml.machine_of(root, {"nvlink": "nvswitch"})
    assert {k.width for k in switched.links if k.kind.value == "nvlink"} == {18}


@pytest.mark.parametrize(
    ("ids", "given", "model"),
    [
        ('vendor="0x10de" device="0x20b0"', "h100-sxm", "A100 SXM4 40GB"),
        ('vendor="0x10de" device="0x9999"', "h100-sxm", "H100 SXM5"),
        ('vendor="0x10de" device="0x2330"', "h100-sxm", "H100 SXM5"),  # the file agrees
        ("", "mi300x", "MI300X"),
    ],
)
def test_a_model_is_assumed_where_the_device_id_has_none(ids: str, given: str, model: str) -> None:
    slot = f'<pci busid="0001:00:00.0" class="0x030200" {ids} link_speed="16 GT/s" link_width="16"/>'
    root = reading.elements(f'<system version="1"><cpu numaid="0">{slot}</cpu></system>'.encode(), "topo.xml")
    machine = nccl_xml.machine_of(root, {"gpu": given})
    assert machine.devices[machine.gpus[0]].model == model
    assert [n.about for n in nccl_xml.unused(machine)] == ["gpu="] * (given == "h100-sxm" and model != "H100 SXM5")


@pytest.mark.parametrize(
    "inside",
    [
        'vendor="0x10de" device="0x9999"/>',
        'vendor="0x10de" device="0x9999"><gpu dev="0" sm="90" rank="0" gdr="1"/></pci>',
    ],
)
def test_a_model_of_another_maker_than_the_files_is_refused(inside: str) -> None:
    slot = '<pci busid="0001:00:00.0" class="0x030200" link_speed="16 GT/s" link_width="16" ' + inside
    root = reading.elements(f'<system version="1"><cpu numaid="0">{slot}</cpu></system>'.encode(), "topo.xml")
    expected = "topo.xml: assume gpu=MI300X: it is amd's, and the file's GPUs are nvidia's; expected one of these"
    with pytest.raises(ValueError, match=expected):
        nccl_xml.machine_of(root, {"gpu": "mi300x"})


def test_of_a_machines_json_nothing_is_assumed(tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    path.write_text(machine_json.text(catalogue.machine("dgx-a100")))
    with pytest.raises(ValueError, match=r"m\.json: a machine as JSON, which is complete; expected no assumptions"):
        reading.find(path, {"gpu": "h100-sxm"})


def test_of_the_catalogue_nothing_is_assumed() -> None:
    with pytest.raises(ValueError, match="dgx-a100 is a machine of the catalogue, which is complete"):
        reading.find("dgx-a100", {"nvlink": "none"})
