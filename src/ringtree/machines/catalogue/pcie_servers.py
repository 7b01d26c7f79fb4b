"""Servers with NVIDIA's cards on PCIe."""

from __future__ import annotations

from ringtree.machines.catalogue.entry import CatalogueEntry

_TWO_A_NIC = ("[g0 g1 n0] [g2 g3 n1]", "[g4 g5 n2] [g6 g7 n3]")

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
    CatalogueEntry(
        name="h200-nvl-bridge4",
        what="4 H200 NVL all to all over a 4-way NVLink bridge, below one socket, 4 NICs of 400 Gb/s with RoCE",
        source="NVIDIA H200 NVL product brief: a bridge joins four, 900 GB/s a GPU both ways, so 6 links to each "
        "other; a NIC a GPU as in the enterprise reference architecture 2-8-9-400",
        cpu="EPYC 9654",
        numa=(
            "[g0 n0] [g1 n1] [g2 n2] [g3 n3]",
            "",
        ),
        gpu="H200 NVL",
        nic="ConnectX-7 NDR",
        fabric="roce",
        mesh="0-1x6 0-2x6 0-3x6 1-2x6 1-3x6 2-3x6",
        note="half of the reference architecture, whose eight GPUs have two bridges",
    ),
    CatalogueEntry(
        name="l40s-pcie",
        what="8 L40S on PCIe, 4 NICs of 400 Gb/s with RoCE",
        source="NVIDIA L40S data sheet: PCIe 4.0, no NVLink; enterprise reference architecture 2-8-5-200: 200 Gb/s a "
        "GPU",
        cpu="EPYC 9654",
        numa=_TWO_A_NIC,
        gpu="L40S",
        nic="ConnectX-7 NDR",
        fabric="roce",
        note="the PCIe switches, two GPUs and a NIC each, are assumed",
    ),
    CatalogueEntry(
        name="rtx-pro-6000-pcie",
        what="8 RTX PRO 6000 Blackwell Server on PCIe, 4 ConnectX-8 with RoCE, whose PCIe switch has two GPUs each",
        source="NVIDIA, ConnectX-8 in RTX PRO servers: 4 ConnectX-8 of 800 Gb/s with the PCIe switch of two GPUs each",
        cpu="Xeon 6776P",
        numa=_TWO_A_NIC,
        gpu="RTX PRO 6000 Server",
        nic="ConnectX-8 XDR",
        fabric="roce",
        switch=6,
    ),
)
