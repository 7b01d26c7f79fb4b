"""Machines of AMD, Hygon and Huawei, and one without accelerators."""

from __future__ import annotations

from itertools import combinations

from ringtree.machines.catalogue.entry import CatalogueEntry

ALL_8 = " ".join(f"{a}-{b}" for a, b in combinations(range(8), 2))
"""A link between each two of eight."""
_ONE_EACH = ("[g0 n0] [g1 n1] [g2 n2] [g3 n3]", "[g4 n4] [g5 n5] [g6 n6] [g7 n7]")

ENTRIES = (
    CatalogueEntry(
        name="mi250x8",
        what="8 MI250, a GPU each of their 16 halves (GCDs), 8 HDR InfiniBand",
        source="AMD CDNA 2 whitepaper, the system of 8 MI250; the wiring as the model topo_16p1h of ROCm/rccl has it",
        cpu="EPYC 7742",
        numa=(
            "[[g0 g1 n0] [g2 g3 n1]]",
            "[[g4 g5 n2] [g6 g7 n3]]",
            "[[g8 g9 n4] [g10 g11 n5]]",
            "[[g12 g13 n6] [g14 g15 n7]]",
        ),
        gpu="MI250",
        nic="ConnectX-6 HDR",
        mesh="0-1x4 2-3x4 4-5x4 6-7x4 8-9x4 10-11x4 12-13x4 14-15x4 "
        "0-2 0-4x2 1-2 1-3 1-5 2-6 3-7x2 4-12 5-13 5-14 6-13 6-14 7-15 8-10 8-12x2 9-10 9-11 9-13 10-14 11-15x2",
        note="GPUs 2k and 2k+1 are the two GCDs of one MI250, 4 links apart",
    ),
    CatalogueEntry(
        name="mi300x8",
        what="8 MI300X all to all by xGMI, 8 NDR InfiniBand",
        source="AMD Instinct MI300X platform data sheet: 7 links a GPU, one to each other",
        cpu="EPYC 9654",
        numa=_ONE_EACH,
        gpu="MI300X",
        nic="ConnectX-7 NDR",
        mesh=ALL_8,
    ),
    CatalogueEntry(
        name="mi325x8",
        what="8 MI325X all to all by xGMI, 8 NDR InfiniBand",
        source="AMD Instinct MI325X platform data sheet: 7 links a GPU, one to each other; a NIC a GPU",
        cpu="EPYC 9575F",
        numa=_ONE_EACH,
        gpu="MI325X",
        nic="ConnectX-7 NDR",
        mesh=ALL_8,
    ),
    CatalogueEntry(
        name="mi355x8",
        what="8 MI355X all to all by xGMI, 8 Pollara of 400 Gb/s with RoCE",
        source="AMD CDNA 4 whitepaper: 7 links a GPU; ROCm documentation, distributed inference: 8 Pollara 400, one a "
        "GPU",
        cpu="EPYC 9575F",
        numa=_ONE_EACH,
        gpu="MI355X",
        nic="Pollara 400",
        fabric="roce",
        mesh=ALL_8,
    ),
    CatalogueEntry(
        name="dcu-z100x4",
        what="4 Hygon DCU Z100 on PCIe, one at each NUMA node, one HDR InfiniBand",
        source="papers on Hygon's DCU clusters: a C86 7185 of 4 dies, a DCU each over PCIe 3.0 x16",
        cpu="Hygon 7185",
        numa=("g0 n0", "g1", "g2", "g3"),
        sockets=1,
        gpu="DCU Z100",
        nic="ConnectX-6 HDR",
    ),
    CatalogueEntry(
        name="ascend-910b-x8",
        what="8 Ascend 910B all to all by HCCS, 8 RoCE 200G",
        source="Huawei Atlas 800T A2 user guide: 4 Kunpeng 920, 8 NPUs all to all, a 200 Gb/s RoCE port each",
        cpu="Kunpeng 920",
        numa=("[g0 g1 n0 n1]", "[g2 g3 n2 n3]", "[g4 g5 n4 n5]", "[g6 g7 n6 n7]"),
        sockets=4,
        gpu="Ascend 910B",
        nic="RoCE 200G",
        fabric="roce",
        mesh=ALL_8,
        note="an NPU's RoCE port is its own; given as a NIC below the switch that the NPU is below",
    ),
    CatalogueEntry(
        name="cpu-2s",
        what="2 sockets of EPYC 9654 and no accelerator, one 100 Gb/s Ethernet, NVMe and SATA",
        source="AMD EPYC 9004 architecture overview; one NUMA node a socket",
        cpu="EPYC 9654",
        numa=("n0 s0 d0", "s1"),
        nic="Ethernet 100G",
        fabric="tcp",
    ),
)
