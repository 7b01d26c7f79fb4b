"""This machine, from the files that Linux shows to any user, /sys and /proc, and from NVML where it is installed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ringtree.machines import parts
from ringtree.machines.building import MachineBuilder
from ringtree.machines.detect import cards, gpus, nodes
from ringtree.machines.detect.amd import kfd_gpus
from ringtree.machines.detect.attachments import Attachments
from ringtree.machines.detect.cpus import NumaNode, Processor, numa_nodes, processor
from ringtree.machines.detect.nvml import nvml_gpus
from ringtree.machines.detect.pci import pci_devices
from ringtree.machines.detect.ports import disks, ports
from ringtree.machines.link_figures import c2c
from ringtree.machines.machine import Machine, NoteKind
from ringtree.machines.pci import unknown_accelerator
from ringtree.machines.sysfs import Sysfs

THIS = Path("/")
VIRTUAL = "var/run/nvidia-topologyd/virtualTopology.xml"
"""The file that NCCL reads instead, where it exists."""
DRIVER = "proc/driver/nvidia/gpus"
"""A folder a GPU, from NVIDIA's driver: also in sandboxes whose /sys lists no PCI device."""
TWO_SOCKETS = 4
"""GPUs from which on a machine has several NUMA nodes, as a rule."""


def detect(root: Path = THIS) -> Machine:
    """The machine below `root`; for another root than `/` no driver is queried. Unknown facts are assumed and noted,
    never an error."""
    sysfs = Sysfs(root)
    pci = pci_devices(sysfs)
    builder = MachineBuilder()
    numa, cpu = numa_nodes(sysfs), processor(sysfs)
    cpus = {node.number: f"cpu{max(node.number, 0)}" for node in numa}
    found = gpus.candidates(pci)
    nodes.add(builder, numa, cpu, cpus, superchip=any(c2c(parts.gpu_by_id(d.maker, d.model)) for d in found))
    attachments = Attachments(builder, pci, cpus)
    nvidia = any(d.maker == gpus.NVIDIA for d in found) or bool(sysfs.folder(DRIVER))
    asked = root == THIS and nvidia
    nvml, silent = nvml_gpus() if asked else ((), "")
    if silent:
        builder.note(NoteKind.ASSUMED, "GPUs", silent)
    for device in pci.values():
        words = unknown_accelerator(device.kind << 8, device.maker, device.model)
        if words and not device.virtual and device not in found:
            text = f"the {words} is in no table: left out, whatever it computes"
            builder.note(NoteKind.UNKNOWN, device.busid, text)
    there = gpus.gpus(found, nvml, kfd_gpus(sysfs))
    gpus.add(builder, attachments, pci, there)
    nics = cards.add_nics(builder, attachments, pci, ports(sysfs))
    for disk in disks(sysfs):
        cards.add_disk(builder, attachments, pci, disk)
    attachments.note()
    _tell(builder, sysfs, cpu, numa, there, nics, bool(pci))
    return builder.machine(sysfs.line("proc/sys/kernel/hostname") or "this machine")


def _tell(
    builder: MachineBuilder,
    sysfs: Sysfs,
    cpu: Processor,
    numa: Sequence[NumaNode],
    there: Sequence[gpus.DetectedGpu],
    nics: Mapping[str, bool],
    any_pci: bool,
) -> None:
    """Notes about the whole machine."""
    note = builder.note
    if not any_pci:
        note(NoteKind.ASSUMED, "PCI", "/sys lists no PCI device, as in some containers: devices on PCI are unknown")
    if not there:
        note(NoteKind.ASSUMED, "GPUs", "none are here: ranks are processes on the CPUs, not GPUs")
    if cpu.guest and len(numa) == 1 and len(there) >= TWO_SOCKETS:
        text = f"a virtual machine that shows one NUMA node for {len(there)} GPUs: the GPUs' distances may be wrong"
        note(NoteKind.TRAP, "NUMA", f"{text}; the provider's topology file (NCCL_TOPO_FILE) has them")
    if sysfs.real(VIRTUAL):
        note(NoteKind.TRAP, "NCCL", f"it reads /{VIRTUAL} here instead of the hardware: ringtree topo show /{VIRTUAL}")
    modules = ("nvidia_peermem", "nv_peer_mem")
    if any(g.maker == "nvidia" for g in there) and any(nics.values()):
        if not any(sysfs.folder(f"sys/module/{m}") for m in modules):
            text = "nvidia_peermem is not loaded: it works with dma-buf alone (open driver, Linux 5.12 or newer)"
            note(NoteKind.ASSUMED, "GPUDirect RDMA", text)
