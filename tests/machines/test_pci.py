"""PCI's own words: link speeds as sysfs and NCCL read them, classes, bus ids."""

import pytest

from ringtree.machines import pci
from ringtree.machines.machine import DeviceKind


@pytest.mark.parametrize(
    ("speed", "meant", "nccl"),
    [
        ("16 GT/s", 4, 4),
        ("16.0 GT/s PCIe", 4, 4),
        ("16.0 GT/s", 4, 3),
        ("32.0 GT/s", 5, 3),
        ("32 GT/s PCIe", 5, 5),
        ("5.0 GT/s", 2, 3),
        ("8.0 GT/s", 3, 3),
        ("2.5 GT/s", 1, 1),
        ("64 GT/s", 6, 3),
        ("64.0 GT/s PCIe", 6, 6),
        ("16GT/s", 4, 3),
        ("", 0, 3),
        ("Unknown", 0, 3),
        ("17 GT/s", 0, 3),
        ("160 GT/s", 0, 3),
        ("nan GT/s", 0, 3),
    ],
)
def test_a_link_speed_is_read_and_nccl_matches_its_start(speed: str, meant: int, nccl: int) -> None:
    assert (pci.generation(speed), pci.generation_for_nccl(speed)) == (meant, nccl)


@pytest.mark.parametrize("generation", range(1, 7))
def test_the_speed_written_for_nccl_is_read_alike_by_both(generation: int) -> None:
    speed = pci.speed_for_nccl(generation)
    assert pci.generation(speed) == pci.generation_for_nccl(speed) == generation


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (0x060400, DeviceKind.PCI),
        (0x080100, DeviceKind.PCI),
        (0x068000, DeviceKind.NVSWITCH),
        (0x068001, DeviceKind.CPU),
        (0x030000, DeviceKind.GPU),
        (0x030200, DeviceKind.GPU),
        (0x038000, DeviceKind.GPU),
        (0x120000, DeviceKind.GPU),
        (0x020000, DeviceKind.NIC),
        (0x020700, DeviceKind.NIC),
        (0x010802, DeviceKind.STORAGE),
        (0x010601, DeviceKind.STORAGE),
        (0x0C0330, DeviceKind.PCI),
    ],
)
def test_a_class_gives_the_kind_of_device(code: int, kind: DeviceKind) -> None:
    assert pci.kind_of_class(code) is kind


def test_busids_are_in_the_order_of_the_bus() -> None:
    busids = ["0001:00:00.0", "0000:a1:00.0", "0000:1d:00.1", "0000:1d:00.0", "10000:00:00.0"]
    assert sorted(busids, key=pci.busid_order) == [busids[3], busids[2], busids[1], busids[0], busids[4]]
    assert all(map(pci.is_busid, busids))
    assert not any(map(pci.is_busid, ["", "0000:a1:00", "0000:a1:00.0 ", "gggg:00:00.0", "0000:a1:00.00"]))
