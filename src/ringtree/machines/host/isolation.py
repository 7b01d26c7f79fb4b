"""Layers between a program and its GPUs: virtual machine, container, IOMMU, and ACS of PCIe bridges."""

from __future__ import annotations

from dataclasses import dataclass

from ringtree.machines.detect.pci import DEVICES
from ringtree.machines.sysfs import Sysfs, number

EXTENDED = 0x100
"""The offset of PCIe's extended capabilities; users other than root read nothing from there on."""
ACS = 0x000D
REDIRECTS = 0b1100
"""ACS control: requests and completions between peers go up to the root complex."""
MOST_CAPABILITIES = 64
SYS_PTRACE = 19


@dataclass(frozen=True, slots=True)
class Isolation:
    """`container` is its kind, "" where none is seen. `ptrace`: whether this process has the capability SYS_PTRACE;
    `shared_memory`: whether /dev/shm is mounted."""

    virtual_machine: bool = False
    container: str = ""
    ptrace: bool = True
    shared_memory: bool = True


def isolation(sysfs: Sysfs) -> Isolation:
    """The isolation of this process."""
    flags = next((line for line in sysfs.text("proc/cpuinfo").splitlines() if line.startswith("flags")), "")
    effective = next((line for line in sysfs.text("proc/self/status").splitlines() if line.startswith("CapEff:")), "")
    mounts = sysfs.text("proc/self/mounts").splitlines()
    return Isolation(
        "hypervisor" in flags.split(),
        container(sysfs),
        not effective or bool(number(f"0x{effective.split()[-1]}", 0) >> SYS_PTRACE & 1),
        not mounts or any(line.split(" ")[1:2] == ["/dev/shm"] for line in mounts),
    )


def container(sysfs: Sysfs) -> str:
    """The kind of container that this process is in, by the marks that its maker leaves; "" where there is none."""
    root = sysfs.folder("")
    if ".dockerenv" in root:
        return "Docker"
    if ".containerenv" in sysfs.folder("run"):
        return "Podman"
    groups = sysfs.text("proc/1/cgroup")
    marks = {"kubepods": "Kubernetes", "docker": "Docker", "lxc": "LXC", "machine.slice": "systemd-nspawn"}
    return next((kind for mark, kind in marks.items() if mark in groups), "")


def translated(sysfs: Sysfs, busid: str) -> bool | None:
    """Whether an IOMMU translates the addresses that a PCI device accesses; None where it cannot be known."""
    kind = sysfs.text(f"{DEVICES}/{busid}/iommu_group/type")
    if kind:
        return kind != "identity"
    if not sysfs.folder("sys/class/iommu"):
        return False if sysfs.folder("sys/class") else None
    words = sysfs.text("proc/cmdline").split()
    return not {"iommu=pt", "iommu.passthrough=1", "iommu=off", "intel_iommu=off", "amd_iommu=off"} & set(words)


def redirects(sysfs: Sysfs, bridge: str) -> bool | None:
    """Whether a bridge's ACS sends what peers exchange up to the root complex; None where its configuration cannot be
    read, as by users other than root."""
    config = sysfs.content(f"{DEVICES}/{bridge}/config")
    if len(config) <= EXTENDED:
        return None
    at = EXTENDED
    for _ in range(MOST_CAPABILITIES):
        head = int.from_bytes(config[at : at + 4], "little")
        if head & 0xFFFF == ACS:
            return bool(int.from_bytes(config[at + 6 : at + 8], "little") & REDIRECTS)
        at = head >> 20
        if at < EXTENDED or at + 8 > len(config):
            return False
    return False


def root_complex(sysfs: Sysfs, busid: str) -> str:
    """The root complex that a PCI device is below, as "pci0000:10"; "" where unknown."""
    return next((part for part in sysfs.real(f"{DEVICES}/{busid}").split("/") if part.startswith("pci")), "")
