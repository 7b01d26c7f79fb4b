"""The settings of NCCL by a fabric's plugin: protocols left out, buffer sizes, and the latency that it reports."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ringtree.machines.clusters import Cluster
from ringtree.machines.machine import Device, Machine
from ringtree.machines.nics import LINE_RATE, RAILS
from ringtree.nccl.tuning.figures import ALGORITHMS, PROTOCOLS


@dataclass(frozen=True, slots=True)
class TuningSettings:
    """`latency_us`: a message's latency that the plugin reports to NCCL; `simple_us`: the known latency of a hop with
    Simple beyond that; `plugin_us`: what the plugin's own work adds to a hop. Buffers with Simple, of a connection;
    NVLS' chunks at most (0: NCCL's own)."""

    source: str
    algorithms: tuple[str, ...] = ALGORITHMS
    protocols: tuple[str, ...] = PROTOCOLS
    latency_us: float = 0.0
    simple_us: float = 0.0
    plugin_us: float = 0.0
    buffer_bytes: int = 4 << 20
    nvls_chunk_bytes: int = 0


NCCLS_OWN = TuningSettings("NCCL 2.30.7, src/init.cc")
TCPX = TuningSettings(
    "Google Kubernetes Engine, GPUDirect-TCPX: NCCL_ALGO=Ring, NCCL_PROTO=Simple. simple_us: unpublished; from "
    "the table of a3-mega, which has the other transport (all_reduce of 64 MiB: 1262 us, of which "
    "NCCL's latency is 67 and the NICs' time 363, over two hops)",
    algorithms=("ring",),
    protocols=("simple",),
    simple_us=415.0,
)
TCPXO = TuningSettings(
    "Google Cloud, GPUDirect-TCPXO, notes of its releases: NCCL_PROTO=Simple,LL128 since May 2025, Simple before; "
    "NCCL_ALGO=Ring,Tree until August 2025, NCCL_NVLSTREE_MAX_CHUNKSIZE=131072 since; NCCL_BUFFSIZE=8388608",
    protocols=("ll128", "simple"),
    buffer_bytes=8 << 20,
    nvls_chunk_bytes=128 << 10,
)
EFA_PLUGIN_us = 7.5
"""Unpublished; from the table of two p4de (all_reduce of 8 bytes: 161 us, of which NCCL's latency is 92 and the
fabric's 54, over two hops)."""
EFA_OLD = TuningSettings(
    "aws-ofi-nccl 2daf7d3, src/platform-aws.cpp: p4d; no order within 128 bytes, so Simple",
    protocols=("simple",),
    latency_us=75.0,
    plugin_us=EFA_PLUGIN_us,
    buffer_bytes=8 << 20,
)
EFA = TuningSettings(
    "aws-ofi-nccl 2daf7d3, src/platform-aws.cpp: p5",
    latency_us=75.0,
    plugin_us=EFA_PLUGIN_us,
    buffer_bytes=8 << 20,
    nvls_chunk_bytes=512 << 10,
)
EFA_3 = replace(EFA, source="aws-ofi-nccl 2daf7d3, src/platform-aws.cpp: p5en, p6", latency_us=35.0)
"""The settings with EFAs beyond 100 Gb/s, which p5en was the first to have."""
_EFA_2_Bps = 12.5e9


def settings(cluster: Cluster, sm: int) -> TuningSettings:
    """The settings of the cluster's fabric; NCCL's own where there is no network, or none that needs a plugin."""
    fabric = cluster.fabric.name if cluster.fabric is not None and cluster.nodes > 1 else ""
    if fabric == "efa":
        return _efa(cluster.machine, sm)
    return {"tcpx": TCPX, "tcpxo": TCPXO}.get(fabric, NCCLS_OWN)


def _efa(machine: Machine, sm: int) -> TuningSettings:
    """The plugin's settings by the machine, of which the GPUs and the rate of a NIC are known."""
    if sm < 90:
        return EFA_OLD
    rates_Bps = (_line_rate_Bps(machine.devices[n]) for n in machine.nics)
    return EFA_3 if max(rates_Bps, default=0.0) > _EFA_2_Bps else EFA


def _line_rate_Bps(nic: Device) -> float:
    """The rate of a NIC, also of one that stands for several, or is shared by several groups."""
    own = nic.attributes.get(LINE_RATE)
    return float(own) if own is not None else nic.rate_Bps / int(nic.attributes.get(RAILS, "1"))
