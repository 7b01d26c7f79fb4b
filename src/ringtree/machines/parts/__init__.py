"""The parts of machines: GPUs, CPUs, NICs and their links, with the source of each figure."""

from __future__ import annotations

from ringtree.machines.parts.cpus import CPUS, Cpu, cpu_by_id, cpu_maker
from ringtree.machines.parts.gpus import GPUS, PCI_VENDORS, GpuPart, gpu_by_id
from ringtree.machines.parts.links import (
    C2C,
    CPU_LATENCY_S,
    NVLINK,
    NVSWITCH,
    PCIE,
    SATA,
    XGMI,
    GBps,
    Gbps,
    LinkGeneration,
    PCIE_GTps,
    Switch,
)
from ringtree.machines.parts.nics import NICS, Nic, nic_by_id

__all__ = [
    "C2C",
    "CPUS",
    "CPU_LATENCY_S",
    "GPUS",
    "NICS",
    "NVLINK",
    "NVSWITCH",
    "PCIE",
    "PCI_VENDORS",
    "SATA",
    "XGMI",
    "Cpu",
    "GBps",
    "Gbps",
    "GpuPart",
    "LinkGeneration",
    "Nic",
    "PCIE_GTps",
    "Switch",
    "cpu_by_id",
    "cpu_maker",
    "gpu_by_id",
    "nic_by_id",
]
