"""Machines to draw."""

from __future__ import annotations

import pytest

from ringtree.machines.building import MachineBuilder
from ringtree.machines.catalogue import NAMES
from ringtree.machines.machine import Device, DeviceKind, LinkKind, Machine, NoteKind

CATALOGUE = [pytest.param(n, marks=[pytest.mark.slow] if n == "dgx-h100-superpod" else []) for n in NAMES]
"""The names, the largest for the long campaign."""


def pair() -> Machine:
    """Two GPUs of one maker with NVLinks between them below a switch, a third at the other CPU, a NIC, two notes."""
    b = MachineBuilder()
    for numa in range(2):
        b.cpu(f"cpu{numa}", "EPYC 7763", numa=numa)
    b.link("cpu0", "cpu1", LinkKind.CPU, 144e9)
    b.add(Device("pci0", DeviceKind.PCI, numa=0))
    b.pcie("pci0", "cpu0", 4)
    for k in range(2):
        b.gpu(f"gpu{k}", "A100 PCIe 80GB", numa=0)
        b.pcie(f"gpu{k}", "pci0", 4)
    b.gpu("gpu2", "A100 PCIe 80GB", numa=1)
    b.pcie("gpu2", "cpu1", 4, 8)
    b.nvlink("gpu0", "gpu1", 3, 12)
    b.nic("nic0", "ConnectX-6 HDR", numa=0, fabric="infiniband")
    b.pcie("nic0", "pci0", 4)
    b.note(NoteKind.ASSUMED, "gpu0", "it is what it seems")
    b.note(NoteKind.TRAP, "gpu2", "its link has half the lanes")
    return b.machine("a pair")
