"""Instances of Amazon's cloud."""

from __future__ import annotations

from ringtree.machines.catalogue.entry import CatalogueEntry
from ringtree.machines.catalogue.nvidia import HYBRID_CUBE_MESH, gb200_rack

_EFA_4 = ("[g0 g1 n0] [g2 g3 n1]", "[g4 g5 n2] [g6 g7 n3]")
_EFA_32 = (
    "[g0 n0 n1 n2 n3] [g1 n4 n5 n6 n7] [g2 n8 n9 n10 n11] [g3 n12 n13 n14 n15]",
    "[g4 n16 n17 n18 n19] [g5 n20 n21 n22 n23] [g6 n24 n25 n26 n27] [g7 n28 n29 n30 n31]",
)
_EFA_16 = (
    "[g0 g1 n0 n1 n2 n3] [g2 g3 n4 n5 n6 n7]",
    "[g4 g5 n8 n9 n10 n11] [g6 g7 n12 n13 n14 n15]",
)
_EFA_8 = ("[g0 g1 n0 n1] [g2 g3 n2 n3]", "[g4 g5 n4 n5] [g6 g7 n6 n7]")
_EFA_2_EACH = (
    "[g0 n0 n1] [g1 n2 n3] [g2 n4 n5] [g3 n6 n7]",
    "[g4 n8 n9] [g5 n10 n11] [g6 n12 n13] [g7 n14 n15]",
)
_SWITCHES = "aws-ofi-nccl, src/platform-aws.cpp: two GPUs and their EFAs below a PCIe switch"

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
        name="aws-p5e",
        what="p5e.48xlarge: 8 H200 SXM5 on NVSwitches, 32 EFA of 100 Gb/s",
        source="AWS EC2 guide, P5 instances: p5e is p5 with H200, 32 network cards and 3,200 Gb/s",
        cpu="EPYC 7R13",
        numa=_EFA_32,
        gpu="H200 SXM5",
        nic="EFA 2",
        fabric="efa",
        switch=5,
        nvswitch=3,
        chips=4,
    ),
    CatalogueEntry(
        name="aws-p5en",
        what="p5en.48xlarge: 8 H200 SXM5 on NVSwitches, 16 EFA of 200 Gb/s",
        source="AWS EC2 guide, P5 instances: 16 network cards, 3,200 Gb/s; " + _SWITCHES,
        cpu="Xeon Platinum 8488C",
        numa=_EFA_16,
        gpu="H200 SXM5",
        nic="EFA 3",
        fabric="efa",
        nvswitch=3,
        chips=4,
    ),
    CatalogueEntry(
        name="aws-p6-b200",
        what="p6-b200.48xlarge: 8 B200 on NVSwitches, 8 EFA of 400 Gb/s",
        source="AWS EC2 guide, P6 instances: 8 network cards, 3,200 Gb/s; " + _SWITCHES,
        cpu="Xeon Platinum 8559C",
        numa=_EFA_8,
        gpu="B200",
        nic="EFA 4",
        fabric="efa",
        nvswitch=4,
        chips=2,
    ),
    CatalogueEntry(
        name="aws-p6-b300",
        what="p6-b300.48xlarge: 8 B300 on NVSwitches, 16 EFA of 400 Gb/s",
        source="AWS EC2 guide, P6 instances: 6,400 Gb/s of EFA, beside a card for ENA",
        cpu="Xeon Platinum 8559C",
        numa=_EFA_2_EACH,
        gpu="B300",
        nic="EFA 4",
        fabric="efa",
        switch=6,
        nvswitch=4,
        chips=2,
        note="AWS documents no PCIe: a switch with two EFAs for each GPU is assumed, of the generation that two need; "
        "the CPU is that of p6-b200",
    ),
    gb200_rack(
        "aws-p6e-gb200",
        "u-p6e-gb200x72: a rack of 18 p6e-gb200.36xlarge, 4 GB200 each, one NVLink domain, an EFA of 400 Gb/s a GPU",
        "AWS EC2 guide, P6e-GB200 UltraServers: 72 GPUs in one NVLink domain, 28.8 Tb/s of EFA",
        "EFA 4",
        "efa",
    ),
)
