"""NVIDIA's own machines, and those of its modules."""

from __future__ import annotations

from itertools import combinations

from ringtree.machines.catalogue.entry import CatalogueEntry

_ONE_EACH = ("[g0 n0] [g1 n1] [g2 n2] [g3 n3]", "[g4 n4] [g5 n5] [g6 n6] [g7 n7]")
_STORAGE_NICS = "only the NICs of the compute fabric are listed, not those for storage and management"
_QUADS = " ".join(f"{q + a}-{q + b}" for q in (0, 4) for a, b in combinations(range(4), 2))

CUBE_MESH = f"{_QUADS} 0-4 1-5 2-6 3-7"
"""Two quads, all to all, and a link between the GPUs at the same position."""
HYBRID_CUBE_MESH = "0-1 0-2 0-3x2 0-4x2 1-2x2 1-3 1-5x2 2-3x2 2-6 3-7 4-5 4-6 4-7x2 5-6x2 5-7 6-7x2"
"""NVLinks between GPUs, six each: NVIDIA DGX-1 with Tesla V100 system architecture, figure 4."""


def gb200_rack(name: str, what: str, source: str, nic: str, fabric: str, note: str = "") -> CatalogueEntry:
    """A rack of 18 trays with 4 GB200 each in one NVLink domain, and a NIC of the cloud for each GPU."""
    return CatalogueEntry(
        name=name,
        what=what,
        source=source,
        cpu="Grace",
        numa=("g0 g1 n0 n1", "g2 g3 n2 n3"),
        gpu="GB200",
        nic=nic,
        fabric=fabric,
        nvswitch=4,
        chips=18,
        c2c="GB200",
        copies=18,
        note=note,
    )


ENTRIES = (
    CatalogueEntry(
        name="dgx-1-p100",
        what="8 P100 SXM2 in a cube mesh, 4 EDR InfiniBand",
        source="NVIDIA DGX-1 with Tesla P100 system architecture whitepaper",
        cpu="Xeon E5-2698 v4",
        numa=("[g0 g1 n0] [g2 g3 n1]", "[g4 g5 n2] [g6 g7 n3]"),
        gpu="P100 SXM2",
        nic="ConnectX-4 EDR",
        mesh=CUBE_MESH,
    ),
    CatalogueEntry(
        name="dgx-1-v100",
        what="8 V100 SXM2 in a hybrid cube mesh, 4 EDR InfiniBand",
        source="NVIDIA DGX-1 with Tesla V100 system architecture whitepaper",
        cpu="Xeon E5-2698 v4",
        numa=("[g0 g1 n0] [g2 g3 n1]", "[g4 g5 n2] [g6 g7 n3]"),
        gpu="V100 SXM2",
        nic="ConnectX-4 EDR",
        mesh=HYBRID_CUBE_MESH,
    ),
    CatalogueEntry(
        name="dgx-2",
        what="16 V100 SXM3 on NVSwitches, 8 EDR InfiniBand",
        source="NVIDIA DGX-2 user guide and NVSwitch technical overview",
        cpu="Xeon Platinum 8168",
        numa=(
            "[[g0 g1 n0] [g2 g3 n1]] [[g4 g5 n2] [g6 g7 n3]]",
            "[[g8 g9 n4] [g10 g11 n5]] [[g12 g13 n6] [g14 g15 n7]]",
        ),
        gpu="V100 SXM3",
        nic="ConnectX-5 EDR",
        nvswitch=1,
        chips=12,
    ),
    CatalogueEntry(
        name="dgx-a100",
        what="8 A100 SXM4 80GB on NVSwitches, 8 HDR InfiniBand",
        source="NVIDIA DGX A100 user guide: topology of the 640 GB system, 4 NUMA nodes a socket",
        cpu="EPYC 7742",
        numa=(
            "",
            "[g2 g3 n2 n3 s2 s3]",
            "",
            "[g0 g1 n0 n1 s0 s1]",
            "",
            "[g6 g7 n6 n7 s6 s7]",
            "",
            "[g4 g5 n4 n5 s4 s5]",
        ),
        gpu="A100 SXM4 80GB",
        nic="ConnectX-6 HDR",
        nvswitch=2,
        chips=6,
        note=_STORAGE_NICS,
    ),
    CatalogueEntry(
        name="dgx-h100",
        what="8 H100 SXM5 on NVSwitches, 8 NDR InfiniBand",
        source="NVIDIA DGX H100/H200 user guide",
        cpu="Xeon Platinum 8480C",
        numa=_ONE_EACH,
        gpu="H100 SXM5",
        nic="ConnectX-7 NDR",
        nvswitch=3,
        chips=4,
        note=_STORAGE_NICS,
    ),
    CatalogueEntry(
        name="dgx-h200",
        what="8 H200 SXM5 on NVSwitches, 8 NDR InfiniBand",
        source="NVIDIA DGX H100/H200 user guide",
        cpu="Xeon Platinum 8480C",
        numa=_ONE_EACH,
        gpu="H200 SXM5",
        nic="ConnectX-7 NDR",
        nvswitch=3,
        chips=4,
        note=_STORAGE_NICS,
    ),
    CatalogueEntry(
        name="dgx-b200",
        what="8 B200 on NVSwitches, 8 NDR InfiniBand",
        source="NVIDIA DGX B200 user guide",
        cpu="Xeon Platinum 8570",
        numa=_ONE_EACH,
        gpu="B200",
        nic="ConnectX-7 NDR",
        nvswitch=4,
        chips=2,
        note=_STORAGE_NICS,
    ),
    CatalogueEntry(
        name="dgx-b300",
        what="8 B300 on NVSwitches, 8 XDR InfiniBand",
        source="NVIDIA DGX B300 user guide and data sheet: a ConnectX-8 for each GPU, whose PCIe switch has both",
        cpu="Xeon 6776P",
        numa=_ONE_EACH,
        gpu="B300",
        nic="ConnectX-8 XDR",
        switch=6,
        nvswitch=4,
        chips=2,
        note=_STORAGE_NICS,
    ),
    CatalogueEntry(
        name="dgx-h100-superpod",
        what="256 H100 SXM5 of 32 nodes in one NVLink network, half of a node's NVLink going out",
        source="NVIDIA H100 whitepaper, DGX H100 SuperPOD with the NVLink Switch System: 72 NVLink4 out of a node",
        cpu="Xeon Platinum 8480C",
        numa=_ONE_EACH,
        gpu="H100 SXM5",
        nic="ConnectX-7 NDR",
        nvswitch=3,
        chips=4,
        copies=32,
        upper=72,
        note=_STORAGE_NICS,
    ),
    gb200_rack(
        "gb200-nvl72",
        "a rack: 72 GB200 of 18 trays in one NVLink domain, 4 NDR InfiniBand a tray",
        "NVIDIA GB200 NVL72 data sheet and DGX GB200 user guide: 18 trays of 2 Grace and 4 GPUs, 9 switch trays",
        "ConnectX-7 NDR",
        "infiniband",
    ),
    CatalogueEntry(
        name="gh200x4",
        what="4 GH200 all to all by NVLink, a Grace each, 4 Slingshot 200G",
        source="CSCS documentation, Alps hardware: 6 NVLinks between each two GPUs, one NIC a module",
        cpu="Grace",
        numa=("g0 n0", "g1 n1", "g2 n2", "g3 n3"),
        sockets=4,
        gpu="GH200 96GB",
        nic="Slingshot 11",
        fabric="slingshot",
        mesh="0-1x6 0-2x6 0-3x6 1-2x6 1-3x6 2-3x6",
        c2c="GH200",
    ),
)
