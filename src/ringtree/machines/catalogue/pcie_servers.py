"""Servers with NVIDIA's cards on PCIe."""

from __future__ import annotations

from ringtree.machines.catalogue.entry import CatalogueEntry

ENTRIES = (
    CatalogueEntry(
        name="v100-pcie",
        what="4 V100 PCIe, two under each socket's PCIe switch, 2 EDR InfiniBand",
        source="the common two-socket server with PCIe switches, NVIDIA Tesla V100 PCIe server design guide",
        cpu="Xeon Platinum 8168",
        numa=("[g0 g1 n0]", "[g2 g3 n1]"),
        gpu="V100 PCIe",
        nic="ConnectX-5 EDR",
    ),
    CatalogueEntry(
        name="a100-pcie-nvlink-pairs",
        what="4 A100 PCIe in two NVLink pairs, 2 HDR InfiniBand",
        source="NVIDIA A100 80GB PCIe product brief: three bridges join a pair, 600 GB/s both ways",
        cpu="EPYC 7763",
        numa=("g0 g1 n0", "g2 g3 n1"),
        gpu="A100 PCIe 80GB",
        nic="ConnectX-6 HDR",
        mesh="0-1x12 2-3x12",
    ),
    CatalogueEntry(
        name="h100-pcie-nvlink-pairs",
        what="4 H100 PCIe in two NVLink pairs, 2 NDR InfiniBand",
        source="NVIDIA H100 PCIe product brief: three bridges join a pair, 600 GB/s both ways",
        cpu="EPYC 9654",
        numa=("g0 g1 n0", "g2 g3 n1"),
        gpu="H100 PCIe",
        nic="ConnectX-7 NDR",
        mesh="0-1x12 2-3x12",
    ),
    CatalogueEntry(
        name="rtx4090-pcie",
        what="8 RTX 4090 on PCIe without P2P, one 100 Gb/s Ethernet",
        source="the common two-socket server, a slot of the CPU each; NVIDIA: GeForce RTX 4090 has no P2P over PCIe",
        cpu="EPYC 7763",
        numa=("g0 g1 g2 g3 n0", "g4 g5 g6 g7"),
        gpu="RTX 4090",
        nic="Ethernet 100G",
        fabric="tcp",
    ),
)
