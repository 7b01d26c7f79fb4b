"""The networks between machines, by name: the share of a NIC's line rate left for data, and a message's costs.

A figure is from a standard, a maker's documentation or a paper, never from a measurement of a collective.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf


@dataclass(frozen=True, slots=True)
class Fabric:
    """`rdma`: the NIC reads and writes memory itself, no kernel in between. `gdr`: also the GPU's memory.
    `payload`: the share of the line rate left for data; `latency_s`: of a small message from NIC to NIC through one
    switch, with the software's part at both ends; `message_s`: a sender's CPU time of each message; `hop_s`: latency of
    each further switch. With a kernel in between, one core of a CPU sends and receives at most `core_Bps`, and `cores`
    of them work for a rank by NCCL's defaults. `sharp`: there are switches that reduce."""

    name: str
    rdma: bool
    gdr: bool
    payload: float
    latency_s: float
    message_s: float
    hop_s: float
    source: str
    core_Bps: float = inf
    cores: int = 1
    sharp: bool = False

    @property
    def kernel_Bps(self) -> float:
        """The kernel's bandwidth for a rank, each way; no limit without a kernel in between."""
        return self.core_Bps * self.cores


def payload(data: int, headers: int) -> float:
    """The share of data in a packet of `data` bytes and `headers` others, gaps on the wire included."""
    return data / (data + headers)


ETHERNET = 8 + 14 + 4 + 12
"""Preamble, header, checksum and the gap between frames: IEEE 802.3."""
IP_TCP = 20 + 20 + 12
"""IPv4, TCP and its timestamps: RFC 791, 9293, 7323."""
ROCE = 20 + 8 + 12 + 4
"""IPv4, UDP, BTH and ICRC: InfiniBand architecture, annex A17."""

_LINUX = (
    "a core's 42 Gb/s, with jumbo frames, segmentation and receive offload: Cai et al., Understanding Host Network "
    "Stack Overheads, SIGCOMM 2021"
)

FABRICS: dict[str, Fabric] = {
    f.name: f
    for f in (
        Fabric(
            "infiniband",
            rdma=True,
            gdr=True,
            payload=payload(4096, 8 + 12 + 4 + 2),
            latency_s=2.0e-6,
            message_s=0.2e-6,
            hop_s=0.13e-6,
            source="payload: LRH, BTH, ICRC and VCRC around 4096 bytes, InfiniBand architecture 1.4; latency: "
            "perftest's ib_write_lat through one switch, 1.0 us between hosts, about twice that where a GPU's memory "
            "is written (NVIDIA, GPUDirect RDMA documentation: posted writes over PCIe at both ends); switch: NVIDIA "
            "Quantum data sheet, 130 ns port to port; SHARP: Graham et al., COM-HPC 2016",
            sharp=True,
        ),
        Fabric(
            "roce",
            rdma=True,
            gdr=True,
            payload=payload(4096, ROCE + ETHERNET),
            latency_s=2.8e-6,
            message_s=0.2e-6,
            hop_s=0.6e-6,
            source="payload: RoCEv2 headers around 4096 bytes, InfiniBand architecture annex A17 and IEEE 802.3; "
            "latency: as infiniband's, through an Ethernet switch; switch: Broadcom Tomahawk 4 and NVIDIA Spectrum-3 "
            "data sheets, 425 to 800 ns with forward error correction",
        ),
        Fabric(
            "efa",
            rdma=True,
            gdr=True,
            payload=payload(8760, 241 + ETHERNET),
            latency_s=15.5e-6,
            message_s=0.5e-6,
            hop_s=0.6e-6,
            source="payload: 8760 bytes, the largest message of libfabric's efa provider in one packet, of an Ethernet "
            "frame of 9001; latency: AWS, EFA for HPC, 15.5 us between two instances, by MPI; SRD takes many paths at "
            "once: Shalev et al., IEEE Micro 40(6), 2020",
        ),
        Fabric(
            "slingshot",
            rdma=True,
            gdr=True,
            payload=payload(2048, 32 + ETHERNET),
            latency_s=2.6e-6,
            message_s=0.3e-6,
            hop_s=0.35e-6,
            source="payload: 2048 bytes a packet, HPE Slingshot 11 (Cassini), and its Portals header; latency and "
            "350 ns a switch: De Sensi et al., An In-Depth Analysis of the Slingshot Interconnect, SC 2020",
        ),
        Fabric(
            "tcp",
            rdma=False,
            gdr=False,
            payload=payload(1500 - IP_TCP, IP_TCP + ETHERNET),
            latency_s=20e-6,
            message_s=4e-6,
            hop_s=0.6e-6,
            core_Bps=42e9 / 8,
            source="payload: frames of 1500 bytes, IEEE 802.3, RFC 9293 and 7323; latency: two kernels, their "
            f"interrupts and wake-ups, and a switch, as netperf's TCP_RR measures; {_LINUX}; one thread a rank, its "
            "proxy's: NCCL's documentation of NCCL_SOCKET_NTHREADS (NCCL takes 2 on AWS' cards and 4 on Google's)",
        ),
        Fabric(
            "tcpx",
            rdma=False,
            gdr=True,
            payload=payload(8192, IP_TCP + ETHERNET),
            latency_s=30e-6,
            message_s=4e-6,
            hop_s=0.6e-6,
            core_Bps=89e9 / 8,
            cores=4,
            source="payload: 8192 bytes in frames of 8244, Google Cloud, GPUDirect-TCPX; the payload goes to the "
            "GPU's memory and only headers to the kernel, so that a core's load is that of a sender that copies once: "
            "89 Gb/s, Cai et al., SIGCOMM 2021; four sockets a connection, each with a core that takes its packets: "
            "Google's settings of its plugin, NCCL_NSOCKS_PERTHREAD; latency: tcp's and a kernel of the GPU's for the "
            "pages",
        ),
        Fabric(
            "tcpxo",
            rdma=True,
            gdr=True,
            payload=payload(8192, IP_TCP + ETHERNET),
            latency_s=15e-6,
            message_s=1e-6,
            hop_s=0.6e-6,
            source="payload: 8192 bytes in frames of 8244, Google Cloud, GPUDirect-TCPXO, whose protocol runs on the "
            "NIC; latency: none is published, taken as efa's, the other transport that runs in a cloud's NIC",
        ),
    )
}
