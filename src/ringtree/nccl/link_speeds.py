"""NCCL's bandwidth of each link: its own figures, below the nominal ones. In GB/s (10^9 bytes), as it prints them.

Source: NVIDIA/nccl 2.30.7, src/graph/topo.h and topo.cc; for AMD's xGMI ROCm/rccl 2.21, src/graph/topo.h.
"""

from __future__ import annotations

import re
from dataclasses import replace

from ringtree.machines.link_figures import data_Bps
from ringtree.machines.machine import Device, DeviceKind, Link, LinkKind, Machine
from ringtree.machines.parts import cpu_maker

NVLINK_GBps = {100: 40.1, 90: 20.6, 87: 20.0, 86: 12.0, 80: 20.0, 70: 20.0, 60: 18.0}
"""One NVLink, by the least compute capability (times 10) it holds from."""
PCIE_LANE_GBps = {1: 15 / 80, 2: 30 / 80, 3: 60 / 80, 4: 120 / 80, 5: 240 / 80, 6: 480 / 80}
XGMI_LINK_GBps = {"gfx94": 48.0, "gfx95": 48.0, "mi3": 48.0, "gfx90a": 36.0, "mi2": 36.0}
"""One xGMI link, by how the model's name begins."""
XGMI_OLD_GBps = 24.0
GFX_OF_GCN = {"910": "gfx90a", "940": "gfx940", "941": "gfx941", "942": "gfx942"}
"""Architectures as older files of RCCL number them."""
CPU_GBps = {"amd": 16.0, "ibm": 32.0, "arm": 6.0, "zhaoxin": 6.0, "yongfeng": 9.0}
INTEL_GBps = (("emerald", 40.0), ("granite", 40.0), ("sapphire", 22.0), ("broadwell", 6.0), ("haswell", 6.0))
INTEL_MODEL_GBps = ((0xCF, 40.0), (0x8F, 22.0), (0x55, 10.0), (0, 6.0))
"""Between two Intel CPUs by the least model number of family 6."""
SKYLAKE_GBps = 10.0
LOCAL_GBps = 5000.0
NIC_UNKNOWN_GBps = 10 / 8
"""GB/s of a NIC of unknown speed: 10 Gbit/s, as in NCCL."""
PCI_OF_NOMINAL = 12 / 15.754
"""The factor for a PCIe link of unknown generation: NCCL's bandwidth of Gen3 x16 over the nominal one."""


def seen(machine: Machine) -> Machine:
    """The machine as NCCL sees it: its figure for every link, links of a kind from one device to another as one, and
    all NVSwitches as one."""
    switches = machine.of_kind(DeviceKind.NVSWITCH)
    kept = [n for n in range(len(machine.devices)) if n not in switches[1:]]
    number = {old: new for new, old in enumerate(kept)} | {n: kept.index(switches[0]) for n in switches[1:]}
    links: dict[tuple[int, int, LinkKind], Link] = {}
    for link in machine.links:
        source, target = number[link.source], number[link.target]
        if source != target:
            ends = (machine.devices[link.source], machine.devices[link.target])
            known, Bps = links.get((source, target, link.kind)), link_GBps(link, *ends) * 1e9
            Bps += known.bandwidth_Bps if known else 0.0
            links[source, target, link.kind] = replace(link, source=source, target=target, bandwidth_Bps=Bps)
    return replace(machine, devices=tuple(machine.devices[n] for n in kept), links=tuple(links.values()))


def link_GBps(link: Link, source: Device, target: Device) -> float:
    """NCCL's bandwidth of a link, in GB/s each way: the nominal one for C2C and for the links from a NIC to the
    network, that for data where the GPU's maker has a library of its own."""
    if link.kind is LinkKind.NVLINK:
        return nvlink_GBps(max(source.sm, target.sm)) * link.width
    if link.kind is LinkKind.PCIE:
        lane = PCIE_LANE_GBps.get(link.generation)
        return link.bandwidth_Bps / 1e9 * PCI_OF_NOMINAL if lane is None else lane * (link.width or 16)
    if link.kind is LinkKind.XGMI and source.vendor not in OWN_LIBRARY:
        return _xgmi_GBps(source if source.model else target) * link.width
    if link.kind in (LinkKind.CPU, LinkKind.SHM):
        return cpu_GBps(source)
    return (data_Bps(link) if link.kind is LinkKind.XGMI else link.bandwidth_Bps) / 1e9


def nvlink_GBps(sm: int) -> float:
    """One NVLink of a GPU of that compute capability (times 10)."""
    return next((GBps for least, GBps in NVLINK_GBps.items() if sm >= least), 20.0)


def nic_GBps(nic: Device) -> float:
    """The bandwidth of all ports of a NIC together, in GB/s."""
    return nic.rate_Bps / 1e9 or NIC_UNKNOWN_GBps


def cpu_GBps(cpu: Device) -> float:
    """The bandwidth from a CPU to the next, by its vendor and model."""
    maker = cpu_maker(cpu)
    if maker != "intel":
        return CPU_GBps.get(maker, LOCAL_GBps)
    model = cpu.attributes.get("modelid", "")
    if re.fullmatch("[0-9]{1,9}", model) and cpu.attributes.get("familyid", "6") == "6":
        return next(GBps for least, GBps in INTEL_MODEL_GBps if int(model) >= least)
    return next((GBps for word, GBps in INTEL_GBps if word in cpu.model.lower()), SKYLAKE_GBps)


MOST_NAMED = 8
"""GPUs that an error names."""
RCCL_VENDORS = ("amd", "hygon")
OWN_LIBRARY = {"huawei": "HCCL"}
"""Makers whose GPUs neither NCCL nor RCCL runs on, and their own library."""


def runs_rccl(machine: Machine) -> bool:
    """Whether a GPU is AMD's: then all GPUs run RCCL."""
    return any(machine.devices[g].vendor.lower() in RCCL_VENDORS for g in machine.gpus)


def check_one_library(machine: Machine) -> None:
    """ValueError: where one GPU runs NCCL and another RCCL, or a third library, so that none joins them all."""
    of = dict[str, list[str]]()
    for gpu in (machine.devices[g] for g in machine.gpus):
        vendor = gpu.vendor.lower()
        library = "RCCL" if vendor in RCCL_VENDORS else OWN_LIBRARY.get(vendor, "NCCL" if vendor == "nvidia" else "")
        if library:
            of.setdefault(library, []).append(gpu.name)
    if len(of) > 1:
        found = " and ".join(f"{names[0]} ({library})" for library, names in of.items())
        most = max(of.values(), key=len)
        more = ", …" * (len(most) > MOST_NAMED)
        raise ValueError(
            f"{machine.name}: {found} are of libraries that do not join; expected the GPUs of one alone, such as "
            f"{', '.join(most[:MOST_NAMED])}{more} (--gpus)"
        )


def own_library(machine: Machine) -> str:
    """The library of a machine whose GPUs neither NCCL nor RCCL runs on; empty for all others."""
    vendors = {machine.devices[g].vendor.lower() for g in machine.gpus}
    return next((library for vendor, library in OWN_LIBRARY.items() if vendor in vendors), "")


def _xgmi_GBps(gpu: Device) -> float:
    gcn = gpu.attributes.get("gcn", "")
    names = f"{GFX_OF_GCN.get(gcn, gcn)} {gpu.model}".lower()
    return next((GBps for start, GBps in XGMI_LINK_GBps.items() if start in names), XGMI_OLD_GBps)
