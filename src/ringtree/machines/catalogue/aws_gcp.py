"""Instances of Amazon's and Google's clouds."""

from __future__ import annotations

from ringtree.machines.catalogue.entry import CatalogueEntry
from ringtree.machines.catalogue.nvidia import HYBRID_CUBE_MESH

_EFA_4 = ("[g0 g1 n0] [g2 g3 n1]", "[g4 g5 n2] [g6 g7 n3]")
_EFA_32 = (
    "[g0 n0 n1 n2 n3] [g1 n4 n5 n6 n7] [g2 n8 n9 n10 n11] [g3 n12 n13 n14 n15]",
    "[g4 n16 n17 n18 n19] [g5 n20 n21 n22 n23] [g6 n24 n25 n26 n27] [g7 n28 n29 n30 n31]",
)
_ONE_EACH = ("[g0 n0] [g1 n1] [g2 n2] [g3 n3]", "[g4 n4] [g5 n5] [g6 n6] [g7 n7]")

ENTRIES = (
    CatalogueEntry(
        name="aws-p3dn",
        what="p3dn.24xlarge: 8 V100 SXM2 32GB in a hybrid cube mesh, one EFA of 100 Gb/s without GPUDirect RDMA",
        source="AWS EC2 guide, P3 instances and EFA",
        cpu="Xeon Platinum 8175M",
        numa=("[g0 g1] [g2 g3]", "[g4 g5] [g6 g7] n0"),
        gpu="V100 SXM2",
        nic="EFA 1",
        fabric="efa",
        mesh=HYBRID_CUBE_MESH,
    ),
    CatalogueEntry(
        name="aws-p4d",
        what="p4d.24xlarge: 8 A100 SXM4 40GB on NVSwitches, 4 EFA of 100 Gb/s",
        source="AWS EC2 guide, P4 instances; PCIe as AWS's own NCCL topology file of aws-ofi-nccl has it",
        cpu="Xeon Platinum 8275CL",
        numa=_EFA_4,
        gpu="A100 SXM4 40GB",
        nic="EFA 1 RDMA",
        fabric="efa",
        switch=3,
        nvswitch=2,
        chips=6,
    ),
    CatalogueEntry(
        name="aws-p4de",
        what="p4de.24xlarge: 8 A100 SXM4 80GB on NVSwitches, 4 EFA of 100 Gb/s",
        source="AWS EC2 guide, P4 instances; PCIe as AWS's own NCCL topology file of aws-ofi-nccl has it",
        cpu="Xeon Platinum 8275CL",
        numa=_EFA_4,
        gpu="A100 SXM4 80GB",
        nic="EFA 1 RDMA",
        fabric="efa",
        switch=3,
        nvswitch=2,
        chips=6,
    ),
    CatalogueEntry(
        name="aws-p5",
        what="p5.48xlarge: 8 H100 SXM5 on NVSwitches, 32 EFA of 100 Gb/s",
        source="AWS EC2 guide, P5 instances; PCIe as AWS's own NCCL topology file of aws-ofi-nccl has it: 4 EFAs and "
        "a GPU a switch",
        cpu="EPYC 7R13",
        numa=_EFA_32,
        gpu="H100 SXM5",
        nic="EFA 2",
        fabric="efa",
        switch=5,
        nvswitch=3,
        chips=4,
    ),
    CatalogueEntry(
        name="gcp-a3-high",
        what="a3-highgpu-8g: 8 H100 SXM5 on NVSwitches, 4 NICs of 200 Gb/s with GPUDirect-TCPX",
        source="Google Cloud, A3 machine types and GPUDirect-TCPX: a NIC for two GPUs",
        cpu="Xeon Platinum 8481C",
        numa=("[g0 g1 n0] [g2 g3 n1]", "[g4 g5 n2] [g6 g7 n3]"),
        gpu="H100 SXM5",
        nic="gVNIC 200G",
        fabric="tcpx",
        nvswitch=3,
        chips=4,
    ),
    CatalogueEntry(
        name="gcp-a3-mega",
        what="a3-megagpu-8g: 8 H100 SXM5 on NVSwitches, 8 NICs of 200 Gb/s with GPUDirect-TCPXO",
        source="Google Cloud, A3 machine types and GPUDirect-TCPXO: a NIC a GPU",
        cpu="Xeon Platinum 8481C",
        numa=("[g0 g1 n0 n1] [g2 g3 n2 n3]", "[g4 g5 n4 n5] [g6 g7 n6 n7]"),
        gpu="H100 SXM5",
        nic="gVNIC 200G",
        fabric="tcpxo",
        nvswitch=3,
        chips=4,
    ),
    CatalogueEntry(
        name="gcp-a3-ultra",
        what="a3-ultragpu-8g: 8 H200 SXM5 on NVSwitches, 8 ConnectX-7 of 400 Gb/s with RoCE",
        source="Google Cloud, A3 Ultra machine types",
        cpu="Xeon Platinum 8581C",
        numa=_ONE_EACH,
        gpu="H200 SXM5",
        nic="ConnectX-7 NDR",
        fabric="roce",
        nvswitch=3,
        chips=4,
    ),
    CatalogueEntry(
        name="gcp-a4",
        what="a4-highgpu-8g: 8 B200 on NVSwitches, 8 ConnectX-7 of 400 Gb/s with RoCE",
        source="Google Cloud, A4 machine types",
        cpu="Xeon Platinum 8581C",
        numa=_ONE_EACH,
        gpu="B200",
        nic="ConnectX-7 NDR",
        fabric="roce",
        nvswitch=4,
        chips=2,
    ),
)
