"""Instances of Microsoft's cloud."""

from __future__ import annotations

from ringtree.machines.catalogue.entry import CatalogueEntry
from ringtree.machines.catalogue.nvidia import HYBRID_CUBE_MESH, gb200_rack
from ringtree.machines.catalogue.others import ALL_8

_ONE_EACH = ("[g0 n0] [g1 n1] [g2 n2] [g3 n3]", "[g4 n4] [g5 n5] [g6 n6] [g7 n7]")
_FOUR_NUMA = ("[g2 g3 n2 n3]", "[g0 g1 n0 n1]", "[g6 g7 n6 n7]", "[g4 g5 n4 n5]")

ENTRIES = (
    CatalogueEntry(
        name="azure-ndv2",
        what="ND40rs_v2: 8 V100 SXM2 32GB in a hybrid cube mesh, one EDR InfiniBand",
        source="Azure, NDv2 series; PCIe as Azure's NCCL topology file of azhpc-images has it, the host's switches "
        "are not shown to the VM",
        cpu="Xeon Platinum 8168",
        numa=("g0 g1 g2 g3 n0", "g4 g5 g6 g7"),
        gpu="V100 SXM2",
        nic="ConnectX-5 EDR",
        mesh=HYBRID_CUBE_MESH,
    ),
    CatalogueEntry(
        name="azure-ndv4",
        what="ND96asr_v4: 8 A100 SXM4 40GB on NVSwitches, 8 HDR InfiniBand",
        source="Azure, ND A100 v4 series; PCIe as Azure's NCCL topology file of azhpc-images has it",
        cpu="EPYC 7V12",
        numa=_FOUR_NUMA,
        gpu="A100 SXM4 40GB",
        nic="ConnectX-6 HDR",
        nvswitch=2,
        chips=6,
    ),
    CatalogueEntry(
        name="azure-ndv5",
        what="ND96isr_H100_v5: 8 H100 SXM5 on NVSwitches, 8 NDR InfiniBand",
        source="Azure, ND H100 v5 series; PCIe as Azure's NCCL topology file of azhpc-images has it",
        cpu="Xeon Platinum 8480C",
        numa=_ONE_EACH,
        gpu="H100 SXM5",
        nic="ConnectX-7 NDR",
        nvswitch=3,
        chips=4,
    ),
    CatalogueEntry(
        name="azure-nc96",
        what="NC96ads_A100_v4: 4 A100 PCIe 80GB in two NVLink pairs, each at a NUMA node, 80 Gb/s of Ethernet",
        source="Azure, NC A100 v4 series; NUMA nodes as Azure's NCCL topology file of azhpc-images has them, pairs "
        "as its graph file orders them",
        cpu="EPYC 7V13",
        numa=("g0 n0", "g1", "g2", "g3"),
        sockets=1,
        gpu="A100 PCIe 80GB",
        nic="Accelerated 80G",
        fabric="tcp",
        mesh="0-1x12 2-3x12",
    ),
    CatalogueEntry(
        name="azure-ndv5-h200",
        what="ND96isr_H200_v5: 8 H200 SXM5 on NVSwitches, 8 NDR InfiniBand",
        source="Azure, ND H200 v5 series: a ConnectX-7 of 400 Gb/s a GPU; PCIe as of ND H100 v5",
        cpu="Xeon Platinum 8480C",
        numa=_ONE_EACH,
        gpu="H200 SXM5",
        nic="ConnectX-7 NDR",
        nvswitch=3,
        chips=4,
    ),
    CatalogueEntry(
        name="azure-ndv5-mi300x",
        what="ND96isr_MI300X_v5: 8 MI300X all to all by xGMI, 8 NDR InfiniBand",
        source="Azure, ND MI300X v5 series: 8 NDR InfiniBand with GPUDirect RDMA; PCIe as of ND H100 v5",
        cpu="Xeon Platinum 8480C",
        numa=_ONE_EACH,
        gpu="MI300X",
        nic="ConnectX-7 NDR",
        mesh=ALL_8,
    ),
    gb200_rack(
        "azure-ndv6-gb200",
        "ND128isr_NDR_GB200_v6: a rack of 18 VMs, 4 GB200 each, one NVLink domain, 4 NDR InfiniBand a VM",
        "Azure, ND GB200 v6 series: 2 Grace and 4 GPUs a VM, 4 ConnectX-7 of 400 Gb/s; 18 VMs are a rack",
        "ConnectX-7 NDR",
        "infiniband",
    ),
)
