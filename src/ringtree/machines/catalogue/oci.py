"""Instances of Oracle's cloud."""

from __future__ import annotations

from ringtree.machines.catalogue.entry import CatalogueEntry

_ONE_EACH = ("[g0 n0] [g1 n1] [g2 n2] [g3 n3]", "[g4 n4] [g5 n5] [g6 n6] [g7 n7]")
_FOUR_NUMA = ("[g2 g3 n2 n3]", "[g0 g1 n0 n1]", "[g6 g7 n6 n7]", "[g4 g5 n4 n5]")

ENTRIES = (
    CatalogueEntry(
        name="oci-gpu4",
        what="BM.GPU4.8: 8 A100 SXM4 40GB on NVSwitches, 8 cards of 2 x 100 Gb/s with RoCE",
        source="Oracle Cloud, GPU bare metal shapes",
        cpu="EPYC 7542",
        numa=_FOUR_NUMA,
        gpu="A100 SXM4 40GB",
        nic="ConnectX-5 2x100G",
        fabric="roce",
        nvswitch=2,
        chips=6,
    ),
    CatalogueEntry(
        name="oci-b4",
        what="BM.GPU.B4.8: 8 A100 SXM4 40GB on NVSwitches, 8 cards of 2 x 100 Gb/s with RoCE",
        source="Oracle Cloud, GPU bare metal shapes",
        cpu="EPYC 7542",
        numa=_FOUR_NUMA,
        gpu="A100 SXM4 40GB",
        nic="ConnectX-5 2x100G",
        fabric="roce",
        nvswitch=2,
        chips=6,
    ),
    CatalogueEntry(
        name="oci-h100",
        what="BM.GPU.H100.8: 8 H100 SXM5 on NVSwitches, 8 cards of 2 x 200 Gb/s with RoCE",
        source="Oracle Cloud, GPU bare metal shapes",
        cpu="Xeon Platinum 8480C",
        numa=_ONE_EACH,
        gpu="H100 SXM5",
        nic="ConnectX-7 2x200G",
        fabric="roce",
        nvswitch=3,
        chips=4,
    ),
)
