"""Access of GPUs to each other, from trees of hosts that allow, hinder or refuse it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ringtree.machines.detect import detect
from ringtree.machines.detect.nvml_state import ALLOWED, GpuState, peer_answer
from ringtree.machines.host.isolation import container, isolation, redirects, translated
from ringtree.machines.host.modules import mps
from ringtree.machines.host.peer_access import PeerPair, explained, gpus_by_name, grouped, peer_pairs
from ringtree.machines.sysfs import Sysfs
from tests.machines.sysfs_trees import PORT, ROOTS, SWITCH, SysTree, gpu_server

L40S, RTX4090 = (0x030200, 0x10DE, 0x26B9), (0x030000, 0x10DE, 0x2684)


def config(acs: int | None) -> bytes:
    """A bridge's configuration: an AER capability, then ACS with that control; without ACS for None."""
    data = bytearray(4096)
    data[0x100:0x104] = (0x0001 | 1 << 16 | (0x148 << 20 if acs is not None else 0)).to_bytes(4, "little")
    if acs is not None:
        data[0x148:0x14C] = (0x000D | 1 << 16).to_bytes(4, "little")
        data[0x14E:0x150] = acs.to_bytes(2, "little")
    return bytes(data)


def two(root: Path, ids: tuple[int, int, int] = L40S, roots: tuple[str, str] = ("10", "10")) -> SysTree:
    """Two GPUs below one switch, or below one root complex each, without a hypervisor."""
    tree = SysTree(root)
    tree.cpu()
    tree.node(0, range(4), 0, "10 21")
    tree.node(1, range(4, 8), 1, "21 10")
    for k, bus in enumerate(roots):
        up = f"{bus}/0000:{bus}:01.0"
        if k == 0 or roots[0] != roots[1]:
            tree.pci(up, PORT, numa=k)
            tree.pci(f"{up}/0000:{bus[0]}1:00.0", SWITCH, numa=k)
        down = tree.pci(f"{up}/0000:{bus[0]}1:00.0/0000:{bus[0]}2:0{k}.0", SWITCH, numa=k)
        tree.pci(f"{down}/0000:{bus[0]}{3 + k}:00.0", ids, numa=k if roots[0] != roots[1] else 0)
    tree.write("sys/class/iommu/none", "")
    (root / "sys/class/iommu/none").unlink()
    return tree


def pair(tree: SysTree, answer: str = ALLOWED, mig: bool = False) -> PeerPair:
    """The pair's row, with the driver's answer; "" for none."""
    machine = detect(tree.root)
    buses = [machine.devices[n].busid for n in machine.gpus]
    states = tuple(
        GpuState(bus, mig=mig and n == 0, peers={other: answer for other in buses if other != bus})
        for n, bus in enumerate(buses)
    )
    (found,) = peer_pairs(machine, Sysfs(tree.root), gpus_by_name(machine, states) if answer else {})
    return found


def test_two_gpus_below_a_switch_are_free_of_hindrances(tmp_path: Path) -> None:
    found = pair(two(tmp_path))
    assert (found.allowed, found.why, found.hindrances, found.remedies) == (True, "the driver allows it", (), ())


def test_acs_of_a_bridge_between_them_is_named_with_its_command(tmp_path: Path) -> None:
    tree = two(tmp_path)
    (tree.root / f"{ROOTS}10/0000:10:01.0/0000:11:00.0/0000:12:01.0/config").write_bytes(config(0b11101))
    found = pair(tree)
    assert found.allowed and "ACS of 0000:12:01.0 sends their data up to the root complex" in explained(found)
    assert any("setpci -s 0000:12:01.0 ECAP_ACS+6.w=0" in remedy for remedy in found.remedies)
    (tree.root / f"{ROOTS}10/0000:10:01.0/config").write_bytes(config(0b11101))  # above both: not on the way
    (tree.root / f"{ROOTS}10/0000:10:01.0/0000:11:00.0/0000:12:01.0/config").write_bytes(config(0b00001))
    assert pair(tree).hindrances == ()


@pytest.mark.parametrize(("acs", "expected"), [(0b1100, True), (0b0100, True), (0b0011, False), (0, False)])
def test_acs_is_read_from_a_bridges_configuration(tmp_path: Path, acs: int, expected: bool) -> None:
    tree = two(tmp_path)
    at = tree.root / f"{ROOTS}10/0000:10:01.0/config"
    at.write_bytes(config(acs))
    assert redirects(Sysfs(tree.root), "0000:10:01.0") is expected
    at.write_bytes(config(None))
    assert redirects(Sysfs(tree.root), "0000:10:01.0") is False
    at.write_bytes(config(acs)[:64])  # as users other than root read it
    assert redirects(Sysfs(tree.root), "0000:10:01.0") is None
    at.write_bytes(config(acs)[:0x100] + b"\x01\x00\x01\x10" + bytes(8))  # a list that leads to itself
    assert redirects(Sysfs(tree.root), "0000:10:01.0") is False


def test_different_root_complexes(tmp_path: Path) -> None:
    found = pair(two(tmp_path, roots=("10", "50")), "root complexes")
    assert found.allowed is False and found.why == "the driver does not support it between these root complexes"
    assert "different root complexes (pci0000:10 and pci0000:50, of NUMA nodes 0 and 1)" in explained(found)


@pytest.mark.parametrize(
    ("files", "answer", "words", "remedy"),
    [
        (
            {"sys/class/iommu/dmar0/x": "", "proc/cmdline": "iommu=pt", "GROUP": "DMA-FQ"},
            ALLOWED,
            "an IOMMU translates",
            "iommu=pt",
        ),
        ({"sys/class/iommu/dmar0/x": "", "GROUP": "identity"}, ALLOWED, "", ""),
        ({"sys/class/iommu/dmar0/x": "", "proc/cmdline": "ro iommu=pt"}, ALLOWED, "", ""),
        ({"sys/class/iommu/dmar0/x": "", "proc/cmdline": "ro quiet"}, ALLOWED, "an IOMMU translates", "iommu=pt"),
        ({}, "chipset", "not support it on this chipset", ""),
        ({}, "registry key", "a setting of the driver's turned it off", ""),
        ({"proc/cpuinfo": "processor : 0\nflags : fpu hypervisor"}, "unsupported", "this is a virtual machine", ""),
    ],
)
def test_what_hinders_them(tmp_path: Path, files: dict[str, str], answer: str, words: str, remedy: str) -> None:
    tree = two(tmp_path)
    for path, text in files.items():
        if path == "GROUP":
            for gpu in ("0000:13:00.0", "0000:14:00.0"):
                tree.write(f"sys/kernel/iommu_groups/{gpu[5:7]}/type", text)
                at = Sysfs(tree.root).real(f"sys/bus/pci/devices/{gpu}")
                tree.link(f"{at}/iommu_group", f"sys/kernel/iommu_groups/{gpu[5:7]}")
        else:
            tree.write(path, text)
    found = pair(tree, answer)
    assert found.allowed is (answer == ALLOWED) and words in explained(found)
    assert bool(found.hindrances) == bool(words and "driver's" not in words and "chipset" not in words)
    assert remedy in " ".join(found.remedies) and bool(remedy) == bool(found.remedies)


def test_consumer_cards_mig_and_no_answer(tmp_path: Path) -> None:
    found = pair(two(tmp_path / "consumer", RTX4090), "gpu")
    assert "RTX 4090 is a consumer card" in explained(found) and "on such GPUs" in found.why
    found = pair(two(tmp_path / "mig"), "unsupported", mig=True)
    assert "gpu0 is divided (MIG)" in explained(found) and "nvidia-smi -i 0000:13:00.0 -mig 0" in found.remedies
    found = pair(two(tmp_path / "silent"), "")
    assert (found.allowed, found.why) == (None, "the driver was not asked")


def test_nvlink_needs_no_pcie_and_pairs_are_grouped(tmp_path: Path) -> None:
    tree = gpu_server(tmp_path)
    tree.write("sys/class/iommu/dmar0/x", "")
    machine = detect(tmp_path)
    states = tuple(
        GpuState(bus, peers={other: ALLOWED for other in buses if other != bus})
        for buses in [[machine.devices[n].busid for n in machine.gpus]]
        for bus in buses
    )
    pairs = peer_pairs(machine, Sysfs(tmp_path), gpus_by_name(machine, states))
    assert len(pairs) == 28 and list(grouped(pairs)) == ["gpu0-gpu1, gpu0-gpu2, gpu0-gpu3 and 25 more"]
    assert not pairs[0].hindrances


def test_the_drivers_answers_by_number() -> None:
    assert peer_answer(0) == ALLOWED and peer_answer(3) == "root complexes" and peer_answer(4) == "registry key"
    assert peer_answer(-1) == peer_answer(99) == peer_answer(6) == "unknown"


@pytest.mark.parametrize(
    ("path", "text", "kind"),
    [
        (".dockerenv", "", "Docker"),
        ("run/.containerenv", "", "Podman"),
        ("proc/1/cgroup", "0::/kubepods.slice/x", "Kubernetes"),
        ("proc/1/cgroup", "0::/init.scope", ""),
    ],
)
def test_containers_are_recognized(tmp_path: Path, path: str, text: str, kind: str) -> None:
    SysTree(tmp_path).write(path, text)
    assert container(Sysfs(tmp_path)) == kind


def test_a_container_may_lack_a_capability_and_shared_memory(tmp_path: Path) -> None:
    tree = SysTree(tmp_path)
    tree.write("proc/self/status", "Name:\tpython\nCapEff:\t00000000a80425fb")  # Docker's own set
    tree.write("proc/self/mounts", "overlay / overlay rw 0 0\nproc /proc proc rw 0 0")
    found = isolation(Sysfs(tmp_path))
    assert (found.ptrace, found.shared_memory) == (False, False)
    tree.write("proc/self/status", "CapEff:\t000001ffffffffff")
    tree.write("proc/self/mounts", "shm /dev/shm tmpfs rw 0 0")
    found = isolation(Sysfs(tmp_path))
    assert (found.ptrace, found.shared_memory) == (True, True)


def test_mps_is_seen_by_its_daemon_or_its_pipe(tmp_path: Path) -> None:
    tree = SysTree(tmp_path)
    tree.write("proc/7/comm", "python")
    assert not mps(Sysfs(tmp_path))
    tree.write("proc/31/comm", "nvidia-cuda-mps")
    assert mps(Sysfs(tmp_path)) == "daemon"
    other = SysTree(tmp_path / "container")
    other.write("run/mps/control", "")
    assert mps(Sysfs(other.root), "/run/mps") == "pipe" and not mps(Sysfs(other.root))


def test_whether_an_iommu_is_there_may_be_unknown(tmp_path: Path) -> None:
    assert translated(Sysfs(tmp_path), "0000:13:00.0") is None
    two(tmp_path)
    assert translated(Sysfs(tmp_path), "0000:13:00.0") is False
