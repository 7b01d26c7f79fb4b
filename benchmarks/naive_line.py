"""The naive line: latency plus bytes over the nominal narrowest link, which a prediction has to beat.

A call costs NCCL's figure for an empty one with LL, and a hop for each doubling of the ranks, there and back for
all_reduce: within a machine a microsecond, between machines the fabric's latency. Each byte counts as often as in
nccl-tests' bus bandwidth, and the link is the nominal bandwidth of a GPU to the others, or between machines that of all
NICs of a machine together where they have less. No algorithm, no protocol, no efficiency.
"""

from __future__ import annotations

from ringtree.machines.clusters import Cluster
from ringtree.machines.machine import LinkKind, Machine
from ringtree.nccl.estimate import Estimate
from ringtree.nccl.tuning.figures import BASE_LATENCY_us

HOP_s = 1e-6
NEAR = (LinkKind.NVLINK, LinkKind.XGMI)


def estimate(cluster: Cluster, collective: str, nbytes: int, bus_factor: float) -> Estimate:
    """The line's time of a call on a cluster; `bus_factor`: bus bandwidth over algorithm bandwidth."""
    Bps = narrowest_Bps(cluster) / bus_factor
    inside, across = ((count - 1).bit_length() for count in (len(cluster.machine.gpus), cluster.nodes))
    hop_s = cluster.fabric.latency_s if cluster.fabric is not None else 0.0
    times = 2 if collective == "all_reduce" else 1
    latency_s = BASE_LATENCY_us["ring"][0] * 1e-6 + times * (inside * HOP_s + across * hop_s)
    return Estimate("naive", "line", 1, latency_s + nbytes / Bps, latency_s, Bps, "the narrowest link, nominally")


def narrowest_Bps(cluster: Cluster) -> float:
    """Nominal bandwidth of the narrowest link that a rank's data pass, each way."""
    machine = cluster.machine
    near = NEAR if len(machine.gpus) > 1 else ()
    within = min(_out_Bps(machine, gpu, near) for gpu in machine.gpus)
    if cluster.nodes == 1:
        return within
    return min(within, sum(machine.devices[n].rate_Bps for n in machine.nics))


def _out_Bps(machine: Machine, gpu: int, near: tuple[LinkKind, ...]) -> float:
    """Bandwidth out of a GPU: of its links to other GPUs, or of its PCIe link where it has none."""
    links = [machine.links[n] for n in machine.leaving(gpu)]
    return sum(k.bandwidth_Bps for k in links if k.kind in near) or sum(
        k.bandwidth_Bps for k in links if k.kind not in NEAR
    )
