"""The parts of machines: GPUs, CPUs, NICs and their links, with the source of each figure.

Bandwidths are nominal: each way, encoding taken off.
"""

from __future__ import annotations

from dataclasses import dataclass

from ringtree.machines.machine import Device, LinkKind


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


@dataclass(frozen=True, slots=True)
class GpuPart:
    """`sm`: compute capability times 10, 0 where it is not NVIDIA's. `wire`, `wires`: NVLINK's generation (XGMI's name
    for others) and the number of links; `pcie` the generation; `ids` PCI device ids; `p2p`: whether its driver lets two
    of them reach one another over PCIe; `board`: the number of them on its maker's board, where all are joined to all
    without a switch."""

    model: str
    vendor: str
    sm: int
    wire: int | str
    wires: int
    pcie: int
    memory_Bps: float
    ids: tuple[int, ...]
    source: str
    p2p: bool = True
    gdr: bool = True
    board: int = 0

    @property
    def attributes(self) -> dict[str, str]:
        """The attributes of a device of this part: `p2p` = 0 where the driver refuses P2P over PCIe."""
        return {"memory_Bps": f"{self.memory_Bps:.0f}"} | ({} if self.p2p else {"p2p": "0"})


@dataclass(frozen=True, slots=True)
class Cpu:
    """A socket. `vendor` as CPUID reports it; `pcie` the generation; `to_socket_Bps` the bandwidth to another
    socket, all links together, each way, `to_numa_Bps` that to another NUMA node of the same socket."""

    model: str
    vendor: str
    arch: str
    family: int
    modelid: int
    pcie: int
    to_socket_Bps: float
    to_numa_Bps: float
    source: str


@dataclass(frozen=True, slots=True)
class Nic:
    """`rate_Bps`: all ports of a card together. `ids`: PCI vendor and device."""

    model: str
    vendor: str
    rate_Bps: float
    ports: int
    pcie: int
    gdr: bool
    ids: tuple[tuple[int, int], ...]
    source: str


GBps = 1e9
Gbps = 1e9 / 8

PCI_VENDORS = {0x10DE: "nvidia", 0x1002: "amd", 0x1D94: "hygon", 0x19E5: "huawei"}
"""Makers of GPUs by PCI vendor."""

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

_NV, _AMD = "nvidia", "amd"
GPUS = {
    g.model: g
    for g in (
        GpuPart("P100 SXM2", _NV, 60, 1, 4, 3, 732e9, (0x15F9,), "NVIDIA Tesla P100 whitepaper"),
        GpuPart("P100 PCIe", _NV, 60, 0, 0, 3, 732e9, (0x15F7, 0x15F8), "NVIDIA Tesla P100 PCIe data sheet"),
        GpuPart("V100 SXM2", _NV, 70, 2, 6, 3, 900e9, (0x1DB1, 0x1DB5), "NVIDIA Tesla V100 whitepaper"),
        GpuPart("V100 SXM3", _NV, 70, 2, 6, 3, 980e9, (0x1DB8,), "NVIDIA DGX-2 data sheet"),
        GpuPart("V100 PCIe", _NV, 70, 0, 0, 3, 900e9, (0x1DB4, 0x1DB6, 0x1DF6), "NVIDIA V100 data sheet"),
        GpuPart("T4", _NV, 75, 0, 0, 3, 320e9, (0x1EB8,), "NVIDIA T4 data sheet"),
        GpuPart("A100 SXM4 40GB", _NV, 80, 3, 12, 4, 1555e9, (0x20B0,), "NVIDIA A100 whitepaper"),
        GpuPart("A100 SXM4 80GB", _NV, 80, 3, 12, 4, 2039e9, (0x20B2,), "NVIDIA A100 data sheet"),
        GpuPart("A100 PCIe 40GB", _NV, 80, 3, 12, 4, 1555e9, (0x20F1,), "NVIDIA A100 data sheet"),
        GpuPart("A100 PCIe 80GB", _NV, 80, 3, 12, 4, 1935e9, (0x20B5,), "NVIDIA A100 data sheet"),
        GpuPart("A800 SXM4 80GB", _NV, 80, 3, 8, 4, 2039e9, (0x20F3,), "NVIDIA A800 data sheet: 400 GB/s of NVLink"),
        GpuPart("A30", _NV, 80, 3, 4, 4, 933e9, (0x20B7,), "NVIDIA A30 data sheet"),
        GpuPart("A10", _NV, 86, 0, 0, 4, 600e9, (0x2236, 0x2237), "NVIDIA A10 data sheet"),
        GpuPart("A40", _NV, 86, 3, 4, 4, 696e9, (0x2235,), "NVIDIA A40 data sheet"),
        GpuPart("RTX A6000", _NV, 86, 3, 4, 4, 768e9, (0x2230,), "NVIDIA RTX A6000 data sheet"),
        GpuPart("RTX 3090", _NV, 86, 3, 4, 4, 936e9, (0x2204,), "NVIDIA GA102 whitepaper", p2p=False, gdr=False),
        GpuPart("L4", _NV, 89, 0, 0, 4, 300e9, (0x27B8,), "NVIDIA L4 data sheet"),
        GpuPart("L40", _NV, 89, 0, 0, 4, 864e9, (0x26B5,), "NVIDIA L40 data sheet"),
        GpuPart("L40S", _NV, 89, 0, 0, 4, 864e9, (0x26B9,), "NVIDIA L40S data sheet"),
        GpuPart("RTX 4090", _NV, 89, 0, 0, 4, 1008e9, (0x2684,), "NVIDIA Ada whitepaper", p2p=False, gdr=False),
        GpuPart("H100 SXM5", _NV, 90, 4, 18, 5, 3350e9, (0x2330, 0x2336), "NVIDIA H100 data sheet"),
        GpuPart("H100 PCIe", _NV, 90, 4, 12, 5, 2000e9, (0x2331,), "NVIDIA H100 PCIe product brief"),
        GpuPart("H100 NVL", _NV, 90, 4, 12, 5, 3900e9, (0x2321,), "NVIDIA H100 NVL product brief"),
        GpuPart("H800 SXM5", _NV, 90, 4, 8, 5, 3350e9, (0x2324,), "NVIDIA H800 data sheet: 400 GB/s of NVLink"),
        GpuPart("H20", _NV, 90, 4, 18, 5, 4000e9, (0x2329,), "NVIDIA H20 data sheet"),
        GpuPart("H200 SXM5", _NV, 90, 4, 18, 5, 4800e9, (0x2335,), "NVIDIA H200 data sheet"),
        GpuPart("H200 NVL", _NV, 90, 4, 18, 5, 4800e9, (0x233B,), "NVIDIA H200 NVL product brief"),
        GpuPart("GH200 96GB", _NV, 90, 4, 18, 5, 4000e9, (0x2342,), "NVIDIA GH200 data sheet"),
        GpuPart("GH200 144GB", _NV, 90, 4, 18, 5, 4900e9, (0x2348,), "NVIDIA GH200 data sheet"),
        GpuPart("B200", _NV, 100, 5, 18, 5, 8000e9, (0x2901,), "NVIDIA DGX B200 data sheet"),
        GpuPart("GB200", _NV, 100, 5, 18, 6, 8000e9, (0x2941,), "NVIDIA GB200 NVL72 data sheet"),
        GpuPart("B300", _NV, 103, 5, 18, 6, 8000e9, (0x3182,), "NVIDIA DGX B300 data sheet"),
        GpuPart("GB300", _NV, 103, 5, 18, 6, 8000e9, (0x31C2,), "NVIDIA GB300 NVL72 data sheet"),
        GpuPart("RTX 5090", _NV, 120, 0, 0, 5, 1792e9, (0x2B85,), "NVIDIA Blackwell whitepaper", p2p=False, gdr=False),
        GpuPart("MI25", _AMD, 0, 0, 0, 3, 484e9, (0x6860,), "AMD Radeon Instinct MI25 data sheet"),
        GpuPart("MI50", _AMD, 0, "MI50", 2, 4, 1024e9, (0x66A0, 0x66A1), "AMD Instinct MI50 data sheet"),
        GpuPart("MI100", _AMD, 0, "MI100", 3, 4, 1229e9, (0x738C,), "AMD CDNA whitepaper"),
        GpuPart("MI210", _AMD, 0, "MI250", 3, 4, 1638e9, (0x740F,), "AMD Instinct MI210 data sheet"),
        GpuPart("MI250", _AMD, 0, "MI250", 7, 4, 1638e9, (0x740C,), "AMD CDNA 2 whitepaper; one GCD of two"),
        GpuPart("MI250X", _AMD, 0, "MI250", 8, 4, 1638e9, (0x7408,), "AMD CDNA 2 whitepaper; one GCD of two"),
        GpuPart("MI300A", _AMD, 0, "MI300", 6, 5, 5300e9, (0x74A0,), "AMD CDNA 3 whitepaper"),
        GpuPart("MI300X", _AMD, 0, "MI300", 7, 5, 5300e9, (0x74A1, 0x74B5), "AMD Instinct MI300X data sheet", board=8),
        GpuPart("MI325X", _AMD, 0, "MI300", 7, 5, 6000e9, (0x74A5, 0x74B9), "AMD Instinct MI325X data sheet", board=8),
        GpuPart("MI350X", _AMD, 0, "MI350", 7, 5, 8000e9, (0x75A0,), "AMD CDNA 4 whitepaper", board=8),
        GpuPart("MI355X", _AMD, 0, "MI350", 7, 5, 8000e9, (0x75A3,), "AMD CDNA 4 whitepaper", board=8),
        GpuPart("DCU Z100", "hygon", 0, 0, 0, 3, 1024e9, (0x53B7, 0x54B7), "Hygon DCU Z100 product page"),
        GpuPart(
            "Ascend 910B", "huawei", 0, "HCCS", 7, 4, 1600e9, (0xD802,), "Huawei Atlas 800T A2 data sheet", board=8
        ),
    )
}
"""GPUs by model. Device ids: the PCI ID repository."""

_INTEL, _EPYC = "GenuineIntel", "AuthenticAMD"
_MESH = "between NUMA nodes of a socket: the memory bandwidth of one, which the mesh carries"
CPUS = {
    c.model: c
    for c in (
        Cpu("Xeon E5-2698 v4", _INTEL, "x86_64", 6, 79, 3, 38.4e9, 38.4e9, f"Intel: 2 QPI links of 9.6 GT/s; {_MESH}"),
        Cpu("Xeon Platinum 8168", _INTEL, "x86_64", 6, 85, 3, 62.4e9, 64e9, f"Intel: 3 UPI links, 10.4 GT/s; {_MESH}"),
        Cpu("Xeon Platinum 8175M", _INTEL, "x86_64", 6, 85, 3, 62.4e9, 64e9, f"Intel: 3 UPI links, 10.4 GT/s; {_MESH}"),
        Cpu(
            "Xeon Platinum 8275CL", _INTEL, "x86_64", 6, 85, 3, 62.4e9, 70e9, f"Intel: 3 UPI links, 10.4 GT/s; {_MESH}"
        ),
        Cpu(
            "Xeon Platinum 8358", _INTEL, "x86_64", 6, 106, 4, 67.2e9, 102e9, f"Intel: 3 UPI links, 11.2 GT/s; {_MESH}"
        ),
        Cpu(
            "Xeon Platinum 8480C", _INTEL, "x86_64", 6, 143, 5, 128e9, 153e9, f"Intel: 4 UPI links of 16 GT/s; {_MESH}"
        ),
        Cpu(
            "Xeon Platinum 8481C", _INTEL, "x86_64", 6, 143, 5, 128e9, 153e9, f"Intel: 4 UPI links of 16 GT/s; {_MESH}"
        ),
        Cpu("Xeon Platinum 8570", _INTEL, "x86_64", 6, 207, 5, 160e9, 179e9, f"Intel: 4 UPI links of 20 GT/s; {_MESH}"),
        Cpu(
            "Xeon Platinum 8581C", _INTEL, "x86_64", 6, 207, 5, 160e9, 179e9, f"Intel: 4 UPI links of 20 GT/s; {_MESH}"
        ),
        Cpu("Xeon 6776P", _INTEL, "x86_64", 6, 173, 5, 192e9, 205e9, f"Intel: 4 UPI links of 24 GT/s; {_MESH}"),
        Cpu("EPYC 7742", _EPYC, "x86_64", 23, 49, 4, 144e9, 51e9, f"AMD: 4 xGMI links x16 of 18 GT/s; {_MESH}"),
        Cpu("EPYC 7V12", _EPYC, "x86_64", 23, 49, 4, 144e9, 51e9, f"AMD: 4 xGMI links x16 of 18 GT/s; {_MESH}"),
        Cpu("EPYC 7542", _EPYC, "x86_64", 23, 49, 4, 144e9, 51e9, f"AMD: 4 xGMI links x16 of 18 GT/s; {_MESH}"),
        Cpu("EPYC 7763", _EPYC, "x86_64", 25, 1, 4, 144e9, 51e9, f"AMD: 4 xGMI links x16 of 18 GT/s; {_MESH}"),
        Cpu("EPYC 7V13", _EPYC, "x86_64", 25, 1, 4, 144e9, 51e9, f"AMD: 4 xGMI links x16 of 18 GT/s; {_MESH}"),
        Cpu("EPYC 7R13", _EPYC, "x86_64", 25, 1, 4, 144e9, 51e9, f"AMD: 4 xGMI links x16 of 18 GT/s; {_MESH}"),
        Cpu("EPYC 9654", _EPYC, "x86_64", 25, 17, 5, 256e9, 115e9, f"AMD: 4 xGMI links x16 of 32 GT/s; {_MESH}"),
        Cpu("Hygon 7185", "HygonGenuine", "x86_64", 24, 0, 3, 76e9, 42.6e9, f"Hygon C86 7185, as AMD's Zen 1; {_MESH}"),
        Cpu(
            "Kunpeng 920",
            "HiSilicon",
            "arm64",
            0,
            0,
            4,
            60e9,
            60e9,
            f"Huawei Kunpeng 920: 2 Hydra links of 240 Gb/s; {_MESH}",
        ),
        Cpu("Grace", "NVIDIA", "arm64", 0, 0, 5, 100e9, 100e9, "NVIDIA Grace: coherent links from socket to socket"),
    )
}
"""CPUs by model. Links of 2 bytes a transfer, counted as their makers do."""

NICS = {
    n.model: n
    for n in (
        Nic("ConnectX-4 EDR", "mellanox", 100 * Gbps, 1, 3, True, ((0x15B3, 0x1013),), "Mellanox ConnectX-4 VPI brief"),
        Nic("ConnectX-5 EDR", "mellanox", 100 * Gbps, 1, 3, True, ((0x15B3, 0x1017),), "Mellanox ConnectX-5 VPI brief"),
        Nic(
            "ConnectX-5 2x100G", "mellanox", 200 * Gbps, 2, 4, True, ((0x15B3, 0x1019),), "Mellanox ConnectX-5 Ex brief"
        ),
        Nic("ConnectX-6 HDR", "mellanox", 200 * Gbps, 1, 4, True, ((0x15B3, 0x101B),), "NVIDIA ConnectX-6 data sheet"),
        Nic("ConnectX-7 NDR", "mellanox", 400 * Gbps, 1, 5, True, ((0x15B3, 0x1021),), "NVIDIA ConnectX-7 data sheet"),
        Nic(
            "ConnectX-7 2x200G", "mellanox", 400 * Gbps, 2, 5, True, ((0x15B3, 0x1021),), "NVIDIA ConnectX-7 data sheet"
        ),
        Nic("ConnectX-8 XDR", "mellanox", 800 * Gbps, 1, 6, True, ((0x15B3, 0x1023),), "NVIDIA ConnectX-8 data sheet"),
        Nic(
            "EFA 1",
            "amazon",
            100 * Gbps,
            1,
            3,
            False,
            ((0x1D0F, 0xEFA0),),
            "AWS EC2 guide: no GPUDirect RDMA before p4d",
        ),
        Nic(
            "EFA 1 RDMA",
            "amazon",
            100 * Gbps,
            1,
            3,
            True,
            ((0x1D0F, 0xEFA1),),
            "AWS EC2 guide: EFA on p4d, 100 Gb/s a card",
        ),
        Nic(
            "EFA 2",
            "amazon",
            100 * Gbps,
            1,
            4,
            True,
            ((0x1D0F, 0xEFA1), (0x1D0F, 0xEFA2)),
            "AWS EC2 guide: EFA on p5, 32 of 100 Gb/s",
        ),
        Nic("gVNIC 100G", "google", 100 * Gbps, 1, 4, False, ((0x1AE0, 0x0042),), "Google Cloud: gVNIC"),
        Nic("gVNIC 200G", "google", 200 * Gbps, 1, 5, True, ((0x1AE0, 0x0042),), "Google Cloud: A3 machine types"),
        Nic(
            "Slingshot 11",
            "hpe",
            200 * Gbps,
            1,
            4,
            True,
            ((0x17DB, 0x0501),),
            "HPE Slingshot 11 brief: Cassini, 200 Gb/s",
        ),
        Nic("RoCE 200G", "huawei", 200 * Gbps, 1, 4, True, ((0x19E5, 0x0222),), "Huawei Atlas 800T A2 data sheet"),
        Nic("Ethernet 100G", "generic", 100 * Gbps, 1, 4, False, (), "IEEE 802.3: 100 Gb/s"),
        Nic("Accelerated 80G", "microsoft", 80 * Gbps, 1, 4, False, (), "Azure: NC A100 v4, 80 Gb/s of Ethernet"),
    )
}
"""NICs by model."""


def gpu_by_id(vendor: int, device: int) -> GpuPart | None:
    """The GPU of a PCI vendor and device id; None where the tables do not know it."""
    maker = PCI_VENDORS.get(vendor)
    return next((g for g in GPUS.values() if g.vendor == maker and device in g.ids), None)


def nic_by_id(vendor: int, device: int) -> Nic | None:
    """The NIC of a PCI vendor and device id (of several the one of the fastest port, then with GPUDirect RDMA); None
    where the tables do not know it."""
    found = [n for n in NICS.values() if (vendor, device) in n.ids]
    return max(found, key=lambda n: (n.rate_Bps / n.ports, n.gdr), default=None)


def cpu_by_id(vendor: str, family: int, modelid: int) -> Cpu | None:
    """The CPU whose CPUID model is the nearest of its vendor and family; None where the tables know none of those."""
    near = [c for c in CPUS.values() if (c.vendor, c.family) == (vendor, family)]
    return min(near, key=lambda c: abs(c.modelid - modelid), default=None)


def cpu_maker(cpu: Device) -> str:
    """A CPU's maker: intel, amd, zhaoxin, ibm, arm, "" where unknown."""
    description = (
        f"{cpu.vendor} {cpu.model} {cpu.attributes.get('vendor', '')} {cpu.attributes.get('arch', '')}".lower()
    )
    return next((maker for maker, words in _MAKERS.items() if any(word in description for word in words)), "")


_MAKERS = {
    "intel": ("intel", "xeon"),
    "amd": ("amd", "epyc"),
    "yongfeng": ("yongfeng",),
    "zhaoxin": ("zhaoxin", "centaur", "shanghai"),
    "ibm": ("power", "ppc"),
    "arm": ("arm", "grace", "graviton", "aarch"),
}
