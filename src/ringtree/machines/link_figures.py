"""A link's share of bandwidth left for data, and its latency for a small message, by kind.

As with fabrics: from a protocol's headers, a maker's documentation or a paper, never from a measured collective.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ringtree.machines import parts
from ringtree.machines.machine import Link, LinkKind
from ringtree.topology.fabrics import FABRICS

PAYLOAD: Mapping[LinkKind, float] = MappingProxyType(
    {
        LinkKind.SHM: 1.0,
        LinkKind.PCIE: 256 / (256 + 24),
        LinkKind.NVLINK: 16 / 17,
        LinkKind.C2C: 375 / 450,
        LinkKind.XGMI: 48 / 64,
        LinkKind.CPU: 64 / 80,
    }
)
"""PCIE: packets of 256 bytes, with 16 of header, 6 of sequence and checksum, 2 of framing: PCI Express base
specification. NVLINK: 16 flits of data and one of header: Foley and Danskin, Ultra-Performance Pascal GPU and NVLink
Interconnect, IEEE Micro 37(2), 2017. XGMI: 48 of 64 GB/s a link, AMD Instinct MI300X system documentation. C2C: from
the host's memory to the GPU: Schieffer et al., Harnessing Integrated CPU-GPU System Memory for HPC, ICPP 2024. CPU: a
cache line of 64 bytes and a quarter of that around it. A kind that is missing here leaves a machine: see FABRICS."""

LATENCY_S: Mapping[LinkKind, float] = MappingProxyType(
    {
        LinkKind.SHM: 0.1e-6,
        LinkKind.PCIE: parts.PCIE[3].latency_s,
        LinkKind.NVLINK: parts.NVLINK[4].latency_s,
        LinkKind.C2C: parts.C2C["GH200"].latency_s,
        LinkKind.XGMI: parts.XGMI["MI300"].latency_s,
        LinkKind.CPU: parts.CPU_LATENCY_S,
        LinkKind.ETHERNET: FABRICS["roce"].hop_s / 2,
        LinkKind.INFINIBAND: FABRICS["infiniband"].hop_s / 2,
    }
)
"""One way, of a link without figures of its own: as the parts that machines are made of; to a network's switch half of
the switch's latency. SHM: a cache line from core to core."""


def latency_s(link: Link) -> float:
    """The link's own latency, or its kind's where it has none."""
    return link.latency_s or LATENCY_S[link.kind]


def data_Bps(link: Link) -> float:
    """A link's bandwidth for data."""
    return link.bandwidth_Bps * PAYLOAD.get(link.kind, 1.0)


def c2c(part: parts.GpuPart | None) -> parts.LinkGeneration | None:
    """The link of a superchip's GPU to its Grace; a GB300 has a GB200's."""
    return parts.C2C.get(part.model.partition(" ")[0].replace("GB300", "GB200")) if part else None
