"""GPUs and the links between them, as their drivers report them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from ringtree.machines.building import MachineBuilder
from ringtree.machines.detect import gpus
from ringtree.machines.detect.attachments import Attachments
from ringtree.machines.detect.nvml import NvmlGpu, nvml_gpus, short_busid
from ringtree.machines.detect.pci import pci_devices
from ringtree.machines.machine import Device, DeviceKind, LinkKind, Machine
from ringtree.machines.sysfs import Sysfs
from tests.machines.sysfs_trees import H100, NVSWITCH, SysTree

A100_PCIE, V100 = (0x030200, 0x10DE, 0x20B5), (0x030200, 0x10DE, 0x1DB1)
SCREEN = (0x030000, 0x1A03, 0x2000)
NvLinks = Mapping[int, Mapping[tuple[str, int], int]]


def machine(root: Path, ids: tuple[int, int, int], count: int, reported: NvLinks, switches: int = 0) -> Machine:
    """`count` GPUs below one CPU; `reported` by NVML: each GPU's links to (kind, number)."""
    tree = SysTree(root)
    tree.pci("00/0000:00:1f.0", SCREEN, None)
    buses = [f"0000:00:{k + 1:02x}.0" for k in range(count)]
    ends = {
        "gpu": buses,
        "cpu": ["0004:00:01.0", "0004:00:01.1"],
        "nvswitch": [f"0000:01:{k + 1:02x}.0" for k in range(6)],
    }
    for bus in buses:
        tree.pci(f"00/{bus}", ids)
    for k in range(switches):
        tree.pci(f"01/{ends['nvswitch'][k]}", NVSWITCH, None)
    pci = pci_devices(Sysfs(root))
    builder = MachineBuilder()
    builder.add(Device("cpu0", DeviceKind.CPU))
    nvml = [
        NvmlGpu(k, buses[gpu], "A GPU", 80, {(kind, ends[kind][n]): many for (kind, n), many in links.items()})
        for k, (gpu, links) in enumerate(reported.items())
    ]
    gpus.add(builder, Attachments(builder, pci, {-1: "cpu0"}), pci, gpus.gpus(gpus.candidates(pci), nvml, ()))
    return builder.machine("m")


def nvlinks(m: Machine) -> dict[tuple[str, str], int]:
    named = [d.name for d in m.devices]
    return {(named[k.source], named[k.target]): k.width for k in m.links if k.kind is LinkKind.NVLINK}


def test_nvlinks_between_gpus_are_those_of_nvml(tmp_path: Path) -> None:
    m = machine(tmp_path, A100_PCIE, 3, {0: {("gpu", 2): 12}, 1: {}, 2: {("gpu", 0): 12}})
    assert nvlinks(m) == {("gpu0", "gpu2"): 12, ("gpu2", "gpu0"): 12}
    assert [m.devices[g].model for g in m.gpus] == ["A GPU"] * 3


def test_nvlinks_to_a_cpu_are_those_of_nvml(tmp_path: Path) -> None:
    """As Power9 has them."""
    m = machine(tmp_path, V100, 2, {0: {("cpu", 0): 3, ("gpu", 1): 3}, 1: {("cpu", 1): 3, ("gpu", 0): 3}})
    pairs = [("gpu0", "cpu0"), ("gpu1", "cpu0"), ("gpu0", "gpu1")]
    assert nvlinks(m) == {pair: 3 for a, b in pairs for pair in ((a, b), (b, a))}


@pytest.mark.parametrize(
    ("by_nvml", "by_sysfs"), [("00000000:1B:00.0", "0000:1b:00.0"), (b"00010000:01:00.0", "10000:01:00.0")]
)
def test_a_domain_is_spelled_as_in_sysfs(by_nvml: bytes | str, by_sysfs: str) -> None:
    assert short_busid(by_nvml) == by_sysfs


def test_all_nvswitches_are_one(tmp_path: Path) -> None:
    reported = {k: {("nvswitch", s): 2 for s in range(6)} for k in range(2)}
    m = machine(tmp_path, A100_PCIE, 2, reported)
    assert nvlinks(m)["gpu1", "nvswitch"] == 12
    assert m.devices[m.device("nvswitch")].attributes["chips"] == "6"


def test_gpus_that_nvml_does_not_show_are_anothers(tmp_path: Path) -> None:
    """In NVML's order, which may not be the bus's."""
    m = machine(tmp_path, A100_PCIE, 4, {3: {}, 1: {}})
    assert [m.devices[g].busid for g in m.gpus] == ["0000:00:04.0", "0000:00:02.0"]


def test_without_nvml_nvswitches_on_the_bus_join_all(tmp_path: Path) -> None:
    m = machine(tmp_path, H100, 4, {}, switches=4)
    assert nvlinks(m)["gpu0", "nvswitch"] == 18
    assert "4 NVSwitches are on the bus" in m.notes[-1].text


def test_without_nvml_a_board_that_has_them_always_is_taken_to_have_them(tmp_path: Path) -> None:
    assert len(nvlinks(machine(tmp_path / "eight", H100, 8, {}))) == 16
    four = machine(tmp_path / "four", H100, 4, {})
    assert not nvlinks(four) and "none are assumed" in four.notes[-1].text
    assert not nvlinks(machine(tmp_path / "volta", V100, 8, {}))


def test_without_a_driver_the_note_names_what_to_install_or_start() -> None:
    found, why = nvml_gpus()
    if found:
        pytest.skip("there is a driver here")
    assert "pip install nvidia-ml-py" in why or "is the NVIDIA driver in this container?" in why
