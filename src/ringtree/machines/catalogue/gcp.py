"""Instances of Google's cloud."""

from __future__ import annotations

from ringtree.machines.catalogue.entry import CatalogueEntry
from ringtree.machines.catalogue.nvidia import gb200_rack

_ONE_EACH = ("[g0 n0] [g1 n1] [g2 n2] [g3 n3]", "[g4 n4] [g5 n5] [g6 n6] [g7 n7]")

ENTRIES = (
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
    gb200_rack(
        "gcp-a4x",
        "a4x-highgpu-4g: a rack of 18 VMs, 4 GB200 each, one NVLink domain, 4 ConnectX-7 of 400 Gb/s with RoCE a VM",
        "Google Cloud, A4X machine type: 4 GPUs a VM, NVL72 domains of 18 VMs, a ConnectX-7 a GPU",
        "ConnectX-7 NDR",
        "roce",
    ),
)
