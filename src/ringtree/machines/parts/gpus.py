"""GPUs and their links to one another, with the source of each figure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GpuPart:
    """`sm`: compute capability times 10, 0 where it is not NVIDIA's. `wire`, `wires`: NVLINK's generation (XGMI's name
    for others) and the number of links; `pcie` the generation; `memory_GiB`: the least it is sold with, as its maker
    counts; `ids` PCI device ids; `p2p`: whether its driver lets two of them reach one another over PCIe; `board`: the
    number of them on its maker's board, where all are joined to all without a switch."""

    model: str
    vendor: str
    sm: int
    wire: int | str
    wires: int
    pcie: int
    memory_GiB: int
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


PCI_VENDORS = {0x10DE: "nvidia", 0x1002: "amd", 0x1D94: "hygon", 0x19E5: "huawei"}
"""Makers of GPUs by PCI vendor."""

_NV, _AMD = "nvidia", "amd"
GPUS = {
    g.model: g
    for g in (
        GpuPart("P100 SXM2", _NV, 60, 1, 4, 3, 16, 732e9, (0x15F9,), "NVIDIA Tesla P100 whitepaper"),
        GpuPart("P100 PCIe", _NV, 60, 0, 0, 3, 12, 732e9, (0x15F7, 0x15F8), "NVIDIA Tesla P100 PCIe data sheet"),
        GpuPart("V100 SXM2", _NV, 70, 2, 6, 3, 16, 900e9, (0x1DB1, 0x1DB5), "NVIDIA Tesla V100 whitepaper"),
        GpuPart("V100 SXM3", _NV, 70, 2, 6, 3, 32, 980e9, (0x1DB8,), "NVIDIA DGX-2 data sheet"),
        GpuPart("V100 PCIe", _NV, 70, 0, 0, 3, 16, 900e9, (0x1DB4, 0x1DB6, 0x1DF6), "NVIDIA V100 data sheet"),
        GpuPart("T4", _NV, 75, 0, 0, 3, 16, 320e9, (0x1EB8,), "NVIDIA T4 data sheet"),
        GpuPart("A100 SXM4 40GB", _NV, 80, 3, 12, 4, 40, 1555e9, (0x20B0,), "NVIDIA A100 whitepaper"),
        GpuPart("A100 SXM4 80GB", _NV, 80, 3, 12, 4, 80, 2039e9, (0x20B2,), "NVIDIA A100 data sheet"),
        GpuPart("A100 PCIe 40GB", _NV, 80, 3, 12, 4, 40, 1555e9, (0x20F1,), "NVIDIA A100 data sheet"),
        GpuPart("A100 PCIe 80GB", _NV, 80, 3, 12, 4, 80, 1935e9, (0x20B5,), "NVIDIA A100 data sheet"),
        GpuPart(
            "A800 SXM4 80GB", _NV, 80, 3, 8, 4, 80, 2039e9, (0x20F3,), "NVIDIA A800 data sheet: 400 GB/s of NVLink"
        ),
        GpuPart("A30", _NV, 80, 3, 4, 4, 24, 933e9, (0x20B7,), "NVIDIA A30 data sheet"),
        GpuPart("A10", _NV, 86, 0, 0, 4, 24, 600e9, (0x2236, 0x2237), "NVIDIA A10 data sheet"),
        GpuPart("A40", _NV, 86, 3, 4, 4, 48, 696e9, (0x2235,), "NVIDIA A40 data sheet"),
        GpuPart("RTX A6000", _NV, 86, 3, 4, 4, 48, 768e9, (0x2230,), "NVIDIA RTX A6000 data sheet"),
        GpuPart("RTX 3090", _NV, 86, 3, 4, 4, 24, 936e9, (0x2204,), "NVIDIA GA102 whitepaper", p2p=False, gdr=False),
        GpuPart("L4", _NV, 89, 0, 0, 4, 24, 300e9, (0x27B8,), "NVIDIA L4 data sheet"),
        GpuPart("L40", _NV, 89, 0, 0, 4, 48, 864e9, (0x26B5,), "NVIDIA L40 data sheet"),
        GpuPart("L40S", _NV, 89, 0, 0, 4, 48, 864e9, (0x26B9,), "NVIDIA L40S data sheet"),
        GpuPart("RTX 4090", _NV, 89, 0, 0, 4, 24, 1008e9, (0x2684,), "NVIDIA Ada whitepaper", p2p=False, gdr=False),
        GpuPart("H100 SXM5", _NV, 90, 4, 18, 5, 80, 3350e9, (0x2330, 0x2336), "NVIDIA H100 data sheet"),
        GpuPart("H100 PCIe", _NV, 90, 4, 12, 5, 80, 2000e9, (0x2331,), "NVIDIA H100 PCIe product brief"),
        GpuPart("H100 NVL", _NV, 90, 4, 12, 5, 94, 3900e9, (0x2321,), "NVIDIA H100 NVL product brief"),
        GpuPart("H800 SXM5", _NV, 90, 4, 8, 5, 80, 3350e9, (0x2324,), "NVIDIA H800 data sheet: 400 GB/s of NVLink"),
        GpuPart("H20", _NV, 90, 4, 18, 5, 96, 4000e9, (0x2329,), "NVIDIA H20 data sheet"),
        GpuPart("H200 SXM5", _NV, 90, 4, 18, 5, 141, 4800e9, (0x2335,), "NVIDIA H200 data sheet"),
        GpuPart("H200 NVL", _NV, 90, 4, 18, 5, 141, 4800e9, (0x233B,), "NVIDIA H200 NVL product brief"),
        GpuPart("GH200 96GB", _NV, 90, 4, 18, 5, 96, 4000e9, (0x2342,), "NVIDIA GH200 data sheet"),
        GpuPart("GH200 144GB", _NV, 90, 4, 18, 5, 144, 4900e9, (0x2348,), "NVIDIA GH200 data sheet"),
        GpuPart("B200", _NV, 100, 5, 18, 5, 180, 8000e9, (0x2901,), "NVIDIA DGX B200 data sheet"),
        GpuPart("GB200", _NV, 100, 5, 18, 6, 186, 8000e9, (0x2941,), "NVIDIA GB200 NVL72 data sheet"),
        GpuPart("B300", _NV, 103, 5, 18, 6, 288, 8000e9, (0x3182,), "NVIDIA DGX B300 data sheet"),
        GpuPart("GB300", _NV, 103, 5, 18, 6, 279, 8000e9, (0x31C2,), "NVIDIA GB300 NVL72 data sheet"),
        GpuPart(
            "RTX 5090", _NV, 120, 0, 0, 5, 32, 1792e9, (0x2B85,), "NVIDIA Blackwell whitepaper", p2p=False, gdr=False
        ),
        GpuPart(
            "RTX PRO 6000 Server", _NV, 120, 0, 0, 5, 96, 1597e9, (0x2BB5,), "NVIDIA RTX PRO 6000 Server data sheet"
        ),
        GpuPart("MI25", _AMD, 0, 0, 0, 3, 16, 484e9, (0x6860,), "AMD Radeon Instinct MI25 data sheet"),
        GpuPart("MI50", _AMD, 0, "MI50", 2, 4, 16, 1024e9, (0x66A0, 0x66A1), "AMD Instinct MI50 data sheet"),
        GpuPart("MI100", _AMD, 0, "MI100", 3, 4, 32, 1229e9, (0x738C,), "AMD CDNA whitepaper"),
        GpuPart("MI210", _AMD, 0, "MI250", 3, 4, 64, 1638e9, (0x740F,), "AMD Instinct MI210 data sheet"),
        GpuPart("MI250", _AMD, 0, "MI250", 7, 4, 64, 1638e9, (0x740C,), "AMD CDNA 2 whitepaper; one GCD of two"),
        GpuPart("MI250X", _AMD, 0, "MI250", 8, 4, 64, 1638e9, (0x7408,), "AMD CDNA 2 whitepaper; one GCD of two"),
        GpuPart("MI300A", _AMD, 0, "MI300", 6, 5, 128, 5300e9, (0x74A0,), "AMD CDNA 3 whitepaper"),
        GpuPart(
            "MI300X", _AMD, 0, "MI300", 7, 5, 192, 5300e9, (0x74A1, 0x74B5), "AMD Instinct MI300X data sheet", board=8
        ),
        GpuPart(
            "MI325X", _AMD, 0, "MI300", 7, 5, 256, 6000e9, (0x74A5, 0x74B9), "AMD Instinct MI325X data sheet", board=8
        ),
        GpuPart("MI350X", _AMD, 0, "MI350", 7, 5, 288, 8000e9, (0x75A0,), "AMD CDNA 4 whitepaper", board=8),
        GpuPart("MI355X", _AMD, 0, "MI350", 7, 5, 288, 8000e9, (0x75A3,), "AMD CDNA 4 whitepaper", board=8),
        GpuPart("DCU Z100", "hygon", 0, 0, 0, 3, 32, 1024e9, (0x53B7, 0x54B7), "Hygon DCU Z100 product page"),
        GpuPart(
            "Ascend 910B", "huawei", 0, "HCCS", 7, 4, 64, 1600e9, (0xD802,), "Huawei Atlas 800T A2 data sheet", board=8
        ),
    )
}
"""GPUs by model. Device ids: the PCI ID repository."""


def gpu_by_id(vendor: int, device: int) -> GpuPart | None:
    """The GPU of a PCI vendor and device id; None where the tables do not know it."""
    maker = PCI_VENDORS.get(vendor)
    return next((g for g in GPUS.values() if g.vendor == maker and device in g.ids), None)
