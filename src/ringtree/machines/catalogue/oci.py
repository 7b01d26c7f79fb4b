"""Instances of Oracle's cloud."""

from __future__ import annotations

from ringtree.machines.catalogue.entry import CatalogueEntry
from ringtree.machines.catalogue.nvidia import gb200_rack
from ringtree.machines.catalogue.others import ALL_8

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
    CatalogueEntry(
        name="oci-h200",
        what="BM.GPU.H200.8: 8 H200 SXM5 on NVSwitches, 8 cards of 400 Gb/s with RoCE",
        source="Oracle Cloud, GPU bare metal shapes; NICs as the NCCL parameters by shape of oci-hpc-oke list them",
        cpu="Xeon Platinum 8480C",
        numa=_ONE_EACH,
        gpu="H200 SXM5",
        nic="ConnectX-7 NDR",
        fabric="roce",
        nvswitch=3,
        chips=4,
    ),
    CatalogueEntry(
        name="oci-b200",
        what="BM.GPU.B200.8: 8 B200 on NVSwitches, 8 cards of 400 Gb/s with RoCE",
        source="Oracle Cloud, GPU bare metal shapes; NICs as the NCCL parameters by shape of oci-hpc-oke list them",
        cpu="Xeon Platinum 8592+",
        numa=_ONE_EACH,
        gpu="B200",
        nic="ConnectX-7 NDR",
        fabric="roce",
        nvswitch=4,
        chips=2,
    ),
    CatalogueEntry(
        name="oci-mi300x",
        what="BM.GPU.MI300X.8: 8 MI300X all to all by xGMI, 8 cards of 400 Gb/s with RoCE",
        source="Oracle Cloud, GPU bare metal shapes; NICs as the RCCL parameters by shape of oci-hpc-oke list them",
        cpu="Xeon Platinum 8480C",
        numa=_ONE_EACH,
        gpu="MI300X",
        nic="ConnectX-7 NDR",
        fabric="roce",
        mesh=ALL_8,
    ),
    gb200_rack(
        "oci-gb200",
        "BM.GPU.GB200.4: a rack of 18 hosts, 4 GB200 each, one NVLink domain, 4 cards of 400 Gb/s with RoCE a host",
        "Oracle Cloud, GPU bare metal shapes and GPU memory fabric: up to 18 hosts; NICs as the NCCL parameters by "
        "shape of oci-hpc-oke list them",
        "ConnectX-7 NDR",
        "roce",
    ),
)
