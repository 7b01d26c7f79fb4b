"""NICs, with the source of each figure."""

from __future__ import annotations

from dataclasses import dataclass

from ringtree.machines.parts.links import Gbps


@dataclass(frozen=True, slots=True)
class Nic:
    """`rate_Bps`: all ports of a card together. `ids`: PCI vendor and device."""

    model: str
    vendor: str
    rate_Bps: float
    ports: int
    pcie: int
    gdr: bool
    ids: tuple[tuple[int, int], ...]
    source: str


NICS = {
    n.model: n
    for n in (
        Nic("ConnectX-4 EDR", "mellanox", 100 * Gbps, 1, 3, True, ((0x15B3, 0x1013),), "Mellanox ConnectX-4 VPI brief"),
        Nic("ConnectX-5 EDR", "mellanox", 100 * Gbps, 1, 3, True, ((0x15B3, 0x1017),), "Mellanox ConnectX-5 VPI brief"),
        Nic(
            "ConnectX-5 2x100G", "mellanox", 200 * Gbps, 2, 4, True, ((0x15B3, 0x1019),), "Mellanox ConnectX-5 Ex brief"
        ),
        Nic("ConnectX-6 HDR", "mellanox", 200 * Gbps, 1, 4, True, ((0x15B3, 0x101B),), "NVIDIA ConnectX-6 data sheet"),
        Nic("ConnectX-7 NDR", "mellanox", 400 * Gbps, 1, 5, True, ((0x15B3, 0x1021),), "NVIDIA ConnectX-7 data sheet"),
        Nic(
            "ConnectX-7 2x200G", "mellanox", 400 * Gbps, 2, 5, True, ((0x15B3, 0x1021),), "NVIDIA ConnectX-7 data sheet"
        ),
        Nic("ConnectX-8 XDR", "mellanox", 800 * Gbps, 1, 6, True, ((0x15B3, 0x1023),), "NVIDIA ConnectX-8 data sheet"),
        Nic(
            "EFA 1",
            "amazon",
            100 * Gbps,
            1,
            3,
            False,
            ((0x1D0F, 0xEFA0),),
            "AWS EC2 guide: no GPUDirect RDMA before p4d",
        ),
        Nic(
            "EFA 1 RDMA",
            "amazon",
            100 * Gbps,
            1,
            3,
            True,
            ((0x1D0F, 0xEFA1),),
            "AWS EC2 guide: EFA on p4d, 100 Gb/s a card",
        ),
        Nic(
            "EFA 2",
            "amazon",
            100 * Gbps,
            1,
            4,
            True,
            ((0x1D0F, 0xEFA1), (0x1D0F, 0xEFA2)),
            "AWS EC2 guide: EFA on p5, 32 of 100 Gb/s",
        ),
        Nic("EFA 3", "amazon", 200 * Gbps, 1, 5, True, (), "AWS EC2 guide: EFA on p5en, 16 of 200 Gb/s"),
        Nic("EFA 4", "amazon", 400 * Gbps, 1, 5, True, (), "AWS EC2 guide: EFA on p6-b200, 8 of 400 Gb/s"),
        Nic("gVNIC 100G", "google", 100 * Gbps, 1, 4, False, ((0x1AE0, 0x0042),), "Google Cloud: gVNIC"),
        Nic("gVNIC 200G", "google", 200 * Gbps, 1, 5, True, ((0x1AE0, 0x0042),), "Google Cloud: A3 machine types"),
        Nic(
            "Slingshot 11",
            "hpe",
            200 * Gbps,
            1,
            4,
            True,
            ((0x17DB, 0x0501),),
            "HPE Slingshot 11 brief: Cassini, 200 Gb/s",
        ),
        Nic("RoCE 200G", "huawei", 200 * Gbps, 1, 4, True, ((0x19E5, 0x0222),), "Huawei Atlas 800T A2 data sheet"),
        Nic("Pollara 400", "pensando", 400 * Gbps, 1, 5, True, (), "AMD Pensando Pollara 400 product brief"),
        Nic("Ethernet 100G", "generic", 100 * Gbps, 1, 4, False, (), "IEEE 802.3: 100 Gb/s"),
        Nic("Accelerated 80G", "microsoft", 80 * Gbps, 1, 4, False, (), "Azure: NC A100 v4, 80 Gb/s of Ethernet"),
    )
}
"""NICs by model."""


def nic_by_id(vendor: int, device: int) -> Nic | None:
    """The NIC of a PCI vendor and device id (of several the one of the fastest port, then with GPUDirect RDMA); None
    where the tables do not know it."""
    found = [n for n in NICS.values() if (vendor, device) in n.ids]
    return max(found, key=lambda n: (n.rate_Bps / n.ports, n.gdr), default=None)
