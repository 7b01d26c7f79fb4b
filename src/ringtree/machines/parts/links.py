"""Links by generation, and the switches that they lead to, with the source of each figure.

Bandwidths are nominal: each way, encoding taken off.
"""

from __future__ import annotations

from dataclasses import dataclass

from ringtree.machines.machine import LinkKind


@dataclass(frozen=True, slots=True)
class LinkGeneration:
    """A generation of a link: bandwidth of one link (PCIe: one lane) each way, and its latency."""

    kind: LinkKind
    generation: int
    bandwidth_Bps: float
    latency_s: float
    source: str


@dataclass(frozen=True, slots=True)
class Switch:
    """A generation of NVSwitch. `ports` of one chip, `gpu_Bps` each GPU's bandwidth through all of them, each way;
    `sharp`: it reduces (NVLS)."""

    generation: int
    nvlink: int
    ports: int
    gpu_Bps: float
    sharp: bool
    source: str


GBps = 1e9
Gbps = 1e9 / 8

_HOP = "latency: about that of one switch or port, Broadcom PEX 88000 product brief (cut-through of 100 to 150 ns)"
PCIE_GTps = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}
"""The generation by its transfers a second and lane, as Linux names link speeds."""
PCIE = {
    1: LinkGeneration(
        LinkKind.PCIE, 1, 2.5 * Gbps * 8 / 10, 150e-9, f"PCI-SIG base specification: 2.5 GT/s, 8b/10b; {_HOP}"
    ),
    2: LinkGeneration(
        LinkKind.PCIE, 2, 5 * Gbps * 8 / 10, 150e-9, f"PCI-SIG base specification: 5 GT/s, 8b/10b; {_HOP}"
    ),
    3: LinkGeneration(LinkKind.PCIE, 3, 8 * Gbps * 128 / 130, 150e-9, f"PCI-SIG: 8 GT/s, 128b/130b; {_HOP}"),
    4: LinkGeneration(LinkKind.PCIE, 4, 16 * Gbps * 128 / 130, 150e-9, f"PCI-SIG: 16 GT/s, 128b/130b; {_HOP}"),
    5: LinkGeneration(LinkKind.PCIE, 5, 32 * Gbps * 128 / 130, 150e-9, f"PCI-SIG: 32 GT/s, 128b/130b; {_HOP}"),
    6: LinkGeneration(
        LinkKind.PCIE, 6, 64 * Gbps * 242 / 256, 150e-9, f"PCI-SIG: 64 GT/s, 242 of 256 bytes a flit; {_HOP}"
    ),
}
"""One lane."""

_NVLINK_HOP = "latency: of the order of one switch crossing; NVIDIA states no figure"
NVLINK = {
    1: LinkGeneration(
        LinkKind.NVLINK, 1, 20 * GBps, 250e-9, f"NVIDIA Tesla P100 whitepaper: 40 GB/s both ways; {_NVLINK_HOP}"
    ),
    2: LinkGeneration(
        LinkKind.NVLINK, 2, 25 * GBps, 250e-9, f"NVIDIA Tesla V100 whitepaper: 50 GB/s both ways; {_NVLINK_HOP}"
    ),
    3: LinkGeneration(
        LinkKind.NVLINK, 3, 25 * GBps, 250e-9, f"NVIDIA A100 whitepaper: 50 GB/s both ways; {_NVLINK_HOP}"
    ),
    4: LinkGeneration(
        LinkKind.NVLINK, 4, 25 * GBps, 250e-9, f"NVIDIA H100 whitepaper: 50 GB/s both ways; {_NVLINK_HOP}"
    ),
    5: LinkGeneration(
        LinkKind.NVLINK, 5, 50 * GBps, 250e-9, f"NVIDIA Blackwell brief: 100 GB/s both ways; {_NVLINK_HOP}"
    ),
}
"""One link."""

NVSWITCH = {
    1: Switch(1, 2, 18, 150 * GBps, False, "NVIDIA NVSwitch technical overview: 18 ports; DGX-2: 300 GB/s a GPU"),
    2: Switch(2, 3, 36, 300 * GBps, False, "NVIDIA A100 whitepaper: 36 ports; 600 GB/s a GPU, both ways"),
    3: Switch(3, 4, 64, 450 * GBps, True, "NVIDIA H100 whitepaper: 64 ports, SHARP; 900 GB/s a GPU, both ways"),
    4: Switch(4, 5, 72, 900 * GBps, True, "NVIDIA Blackwell brief: 72 ports, SHARP; 1.8 TB/s a GPU, both ways"),
}

_XGMI_HOP = "latency: as of an NVLink; AMD states no figure"
XGMI = {
    "MI50": LinkGeneration(
        LinkKind.XGMI, 1, 46 * GBps, 250e-9, f"AMD Instinct MI50/MI60 data sheet: 92 GB/s a link; {_XGMI_HOP}"
    ),
    "MI100": LinkGeneration(
        LinkKind.XGMI, 2, 46 * GBps, 250e-9, f"AMD CDNA whitepaper: 3 links, 276 GB/s; {_XGMI_HOP}"
    ),
    "MI250": LinkGeneration(
        LinkKind.XGMI, 3, 50 * GBps, 250e-9, f"AMD CDNA 2 whitepaper: 100 GB/s both ways; {_XGMI_HOP}"
    ),
    "MI300": LinkGeneration(
        LinkKind.XGMI, 4, 64 * GBps, 250e-9, f"AMD CDNA 3 whitepaper: 128 GB/s both ways; {_XGMI_HOP}"
    ),
    "MI350": LinkGeneration(
        LinkKind.XGMI, 4, 76.8 * GBps, 250e-9, f"AMD CDNA 4 whitepaper: 153.6 GB/s both ways; {_XGMI_HOP}"
    ),
    "HCCS": LinkGeneration(
        LinkKind.XGMI,
        0,
        28 * GBps,
        250e-9,
        "Huawei Atlas 800T A2 data sheet: 7 HCCS links of 56 GB/s both ways, 392 GB/s; given as xGMI, which it is "
        "like: a link from accelerator to accelerator; latency: as of an NVLink, Huawei states no figure",
    ),
}
"""One link, by the generation of accelerators that has it."""

C2C = {
    "GH200": LinkGeneration(
        LinkKind.C2C, 1, 450 * GBps, 200e-9, "NVIDIA GH200 whitepaper: 900 GB/s both ways; latency: none published"
    ),
    "GB200": LinkGeneration(
        LinkKind.C2C,
        1,
        225 * GBps,
        200e-9,
        "NVIDIA GB200 NVL72 data sheet: 900 GB/s both ways for a Grace, which two GPUs share; latency: none published",
    ),
}
"""Links from a GPU to its CPU."""

SATA = LinkGeneration(
    LinkKind.PCIE, 0, 6 * Gbps * 8 / 10, 150e-9, f"SATA-IO: 6 Gb/s, 8b/10b, as a lane of PCIe; {_HOP}"
)
"""One disk."""

CPU_LATENCY_S = 100e-9
"""Latency that another NUMA node adds: Intel's and AMD's memory latency tables list 60 to 130 ns."""
