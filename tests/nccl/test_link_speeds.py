"""NCCL's own figures for links, as its logs print them."""

from __future__ import annotations

import pytest

from ringtree.machines.catalogue import NAMES, machine
from ringtree.machines.machine import Device, DeviceKind, Link, LinkKind
from ringtree.nccl.link_speeds import cpu_GBps, link_GBps, nic_GBps, seen

GPU = {sm: Device(f"gpu{sm}", DeviceKind.GPU, "nvidia", sm=sm) for sm in (60, 70, 80, 86, 90, 100, 103)}
SWITCH = Device("switch", DeviceKind.NVSWITCH)
BRIDGE = Device("bridge", DeviceKind.PCI)


@pytest.mark.parametrize(
    ("sm", "links", "GBps"),
    [(60, 4, 72), (70, 6, 120), (80, 12, 240), (86, 4, 48), (90, 18, 370.8), (100, 18, 721.8), (103, 18, 721.8)],
)
def test_all_nvlinks_of_a_gpu(sm: int, links: int, GBps: float) -> None:
    link = Link(0, 1, LinkKind.NVLINK, 25e9 * links, width=links)
    assert link_GBps(link, GPU[sm], SWITCH) == link_GBps(link, SWITCH, GPU[sm]) == pytest.approx(GBps)


@pytest.mark.parametrize(("generation", "GBps"), [(1, 3), (2, 6), (3, 12), (4, 24), (5, 48), (6, 96)])
def test_pcie_by_generation_and_width(generation: int, GBps: float) -> None:
    for width in (16, 8, 4):
        link = Link(0, 1, LinkKind.PCIE, 1e9, generation=generation, width=width)
        assert link_GBps(link, BRIDGE, GPU[80]) == GBps * width / 16
    assert link_GBps(Link(0, 1, LinkKind.PCIE, 1e9, generation=generation, width=0), BRIDGE, GPU[80]) == GBps


@pytest.mark.parametrize(
    ("cpu", "GBps"),
    [
        (Device("c", DeviceKind.CPU, "intel", "Xeon Platinum 8480C (Sapphire Rapids)"), 22),
        (Device("c", DeviceKind.CPU, "GenuineIntel", attributes={"familyid": "6", "modelid": "207"}), 40),
        (Device("c", DeviceKind.CPU, "GenuineIntel", attributes={"familyid": "6", "modelid": "143"}), 22),
        (Device("c", DeviceKind.CPU, "GenuineIntel", attributes={"familyid": "6", "modelid": "85"}), 10),
        (Device("c", DeviceKind.CPU, "GenuineIntel", attributes={"familyid": "6", "modelid": "79"}), 6),
        (Device("c", DeviceKind.CPU, "AuthenticAMD", attributes={"familyid": "175"}), 16),
        (Device("c", DeviceKind.CPU, "amd", "EPYC 7742"), 16),
        (Device("c", DeviceKind.CPU, "nvidia", "Grace"), 6),
        (Device("c", DeviceKind.CPU, attributes={"arch": "ppc64"}), 32),
        (Device("c", DeviceKind.CPU), 5000),
    ],
)
def test_between_cpus_by_their_maker_and_model(cpu: Device, GBps: float) -> None:
    assert cpu_GBps(cpu) == GBps


def test_a_nic_of_unknown_rate_has_10_gigabit() -> None:
    assert nic_GBps(Device("nic", DeviceKind.NIC)) == 1.25
    assert nic_GBps(Device("nic", DeviceKind.NIC, rate_Bps=50e9)) == 50


@pytest.mark.parametrize("name", NAMES)
def test_a_machine_as_seen_keeps_its_gpus_and_nics_and_has_one_nvswitch(name: str) -> None:
    before, after = machine(name), seen(machine(name))
    assert [after.devices[g].name for g in after.gpus] == [before.devices[g].name for g in before.gpus]
    assert [after.devices[n].name for n in after.nics] == [before.devices[n].name for n in before.nics]
    assert len(after.of_kind(DeviceKind.NVSWITCH)) == min(1, len(before.of_kind(DeviceKind.NVSWITCH)))
    assert len({(k.source, k.target, k.kind) for k in after.links}) == len(after.links)
