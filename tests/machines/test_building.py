"""The builder: devices by name, links in both directions."""

from __future__ import annotations

import pytest

from ringtree.machines.building import MachineBuilder
from ringtree.machines.machine import Device, DeviceKind, LinkKind, NoteKind


def test_links_have_both_directions_and_may_come_before_their_devices() -> None:
    b = MachineBuilder()
    b.pcie("gpu0", "cpu0", 4, 8)
    b.cpu("cpu0", "EPYC 7763", numa=0)
    b.gpu("gpu0", "A100 PCIe 80GB")
    m = b.machine("mine")
    assert [(k.source, k.target, k.generation, k.width) for k in m.links] == [(1, 0, 4, 8), (0, 1, 4, 8)]
    assert [k.bandwidth_Bps for k in m.links] == pytest.approx([15.75e9, 15.75e9], rel=1e-3)
    assert [m.devices[g].sm for g in m.gpus] == [80]


def test_a_note_is_kept_once() -> None:
    b = MachineBuilder()
    for name in ("gpu0", "gpu1"):
        b.gpu(name, "H100 SXM5")
    assert [n.about for n in b.machine("mine").notes if n.kind is NoteKind.SOURCE] == ["H100 SXM5"]


def test_a_gpu_without_p2p_has_a_note() -> None:
    b = MachineBuilder()
    b.gpu("gpu0", "RTX 4090")
    b.gpu("gpu1", "L40S")
    assert [d.attributes.get("p2p") for d in b.machine("mine").devices] == ["0", None]


def test_a_name_that_is_taken_and_a_link_to_nothing_are_refused() -> None:
    b = MachineBuilder()
    b.add(Device("a", DeviceKind.PCI))
    with pytest.raises(ValueError, match="two devices are named 'a'"):
        b.add(Device("a", DeviceKind.PCI))
    b.link("a", "b", LinkKind.PCIE, 1e9)
    with pytest.raises(ValueError, match="there is no 'b'"):
        b.machine("mine")
