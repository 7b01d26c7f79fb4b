"""The unknowns of a cluster: each unknown as the cluster or its channels at either end of what may be true.

A range with a source is from a standard, a maker's documentation, NCCL's source or published latencies of the part
alone. One without a source is a judgement, made with the published tables in view; how far the model is off as a whole
is learnt from those in `compared`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import log2

from ringtree.machines.channels import Channels, Pattern
from ringtree.machines.clusters import Cluster
from ringtree.machines.nics import as_shown
from ringtree.nccl.interval.classes import within
from ringtree.nccl.transport.peer_channels import slower_before
from ringtree.nccl.tuning.communicator import NcclCommunicator
from ringtree.topology.fabrics import Fabric

COMPARED_NODES = 4
"""Machines of the largest cluster that the model was compared with."""
PAYLOAD = "payload"
RIVAL_WITHIN = 1.25
"""NCCL's estimates of two candidates differ by less than this factor: another version may pick the other one."""
RIVAL = ("pick", "NCCL's pick: its estimates of these candidates are within 25 %, and differ between versions")


@dataclass(frozen=True)
class Variant:
    """A cluster, or its channels, as they may be instead; factors of an estimate's latency, of its bytes at the
    bottleneck, and of the time that fills its pipeline. `copies`: of its bytes where the network is not the bottleneck.
    With `protocols` and `algorithms`, of these alone."""

    cluster: Cluster | None = None
    graphs: Mapping[Pattern, Channels] | None = None
    latency: float = 1.0
    transfer: float = 1.0
    fill: float = 1.0
    copies: float = 1.0
    protocols: tuple[str, ...] = ()
    algorithms: tuple[str, ...] = ()


@dataclass(frozen=True)
class Unknown:
    """`why`: what is unknown, its range, and the range's source."""

    key: str
    why: str
    quicker: Variant
    slower: Variant


@dataclass(frozen=True, slots=True)
class FabricRanges:
    """Factors of a fabric's latency, of its payload, and of a core's bandwidth where a kernel is in between."""

    latency: tuple[float, float]
    payload: tuple[float, float]
    core: tuple[float, float]
    why_latency: str
    why_payload: str


_ONE = (1.0, 1.0)
FABRIC_RANGES = {
    "infiniband": FabricRanges(
        (0.75, 2.0), (0.95, 1.02), _ONE,
        "one to three switches and the PCIe switches at both ends",
        "46 to 48 GB/s of a 400 Gb/s NIC by NVIDIA's engineers (nccl-tests issue 290); routes that collide",
    ),
    "roce": FabricRanges(
        (0.7, 2.5), (0.87, 1.03), _ONE,
        "Ethernet switches of 425 to 800 ns, one to three, and queues",
        "4096 or 1024 bytes a packet; flows that collide by their hash, and congestion control",
    ),
    "efa": FabricRanges(
        (0.6, 2.0), (0.54, 1.03), _ONE,
        "15.5 us is MPI's; EFA's generations differ",
        "the share of the line that the plugin reaches is unpublished and differs by release: two p4d with NCCL 2.9 "
        "reach 54 % of what two p4de do",
    ),
    "slingshot": FabricRanges(
        (0.7, 5.0), (0.85, 1.03), _ONE,
        "libfabric's protocols: eager, or a rendezvous that crosses the network three times more",
        "routes that collide, and the plugin's copies",
    ),
    "tcp": FabricRanges(
        (0.5, 3.0), (0.9, 1.04), (0.4, 2.0),
        "interrupts, wake-ups and virtual machines",
        "frames of 1500 or 9000 bytes; a core's speed, and 1 to 4 threads of a connection",
    ),
    "tcpx": FabricRanges(
        (0.5, 4.0), (0.9, 1.03), (0.6, 1.6),
        "unpublished",
        "a core's speed, and how many of them receive",
    ),
    "tcpxo": FabricRanges(
        (0.5, 4.0), (0.85, 1.03), _ONE,
        "unpublished, taken as EFA's",
        "the share of the line that the NIC's own protocol reaches is unpublished",
    ),
}  # fmt: skip
LINK_RANGES = {
    "nvlink": (0.86, 1.06, "the share of NVLink that kernels reach, NCCL's 80 %, differs with blocks, driver and GPUs"),
    "xgmi": (0.85, 1.1, "the share of xGMI that kernels reach differs by driver"),
    "pcie": (0.75, 1.15, "PCIe's payload of 128 to 512 bytes, relaxed ordering, and the root complex of the CPU"),
    "host": (0.25, 1.15, "copies through the host's memory: its channels, the CPU's root complex, both sockets"),
}
"""Factors of the bandwidth between GPUs of a machine."""
PLUGINS = {"tcpx": (0.6, 1.6, 0.75, 1.4)}
"""Factors of a hop with Simple, by fabrics whose plugin publishes none, and of the time of bytes where what is under
way over such a hop is the bottleneck."""
RUN = 1.05
"""The factor by which one run's time may differ from the next one's."""


def unknowns(cluster: Cluster, graphs: Mapping[Pattern, Channels]) -> Iterator[Unknown]:
    """All that is unknown about a cluster."""
    yield Unknown(
        "latency",
        "latency of a call and of a hop, 0.9 to 1.4 times NCCL's table, which is of NVIDIA's own boards: slower CPUs, "
        "drivers and virtual machines add to it",
        Variant(latency=0.9),
        Variant(latency=1.4),
    )
    yield Unknown(
        "run",
        "one run: the mean of 20 iterations may differ by 5 % from run to run",
        Variant(latency=1 / RUN, transfer=1 / RUN, fill=1 / RUN),
        Variant(latency=RUN, transfer=RUN, fill=RUN),
    )
    yield Unknown(
        "pipeline",
        "the time that fills the pipeline, and middle sizes' loss, 0.6 to 1.7 times the model's: how much is hidden",
        Variant(fill=0.6),
        Variant(fill=1.7),
    )
    yield from _links(cluster, graphs)
    if cluster.nodes > 1 and cluster.fabric is not None:
        yield from _fabric(cluster, cluster.fabric)
        if cluster.nccl is None:
            yield from _release(cluster, graphs)
        if cluster.nodes > COMPARED_NODES:
            yield _size(cluster, cluster.fabric)


def _links(cluster: Cluster, graphs: Mapping[Pattern, Channels]) -> Iterator[Unknown]:
    ranges = LINK_RANGES.get(within(cluster, graphs))
    if ranges is not None:
        less, more, why = ranges
        quicker, slower = (Variant(graphs=_scaled(graphs, share), copies=1 / share) for share in (more, less))
        yield Unknown("links", why, quicker, slower)


def _scaled(graphs: Mapping[Pattern, Channels], factor: float) -> Mapping[Pattern, Channels]:
    return {p: replace(c, intra_Bps=c.intra_Bps * factor) for p, c in graphs.items()}


def _fabric(cluster: Cluster, fabric: Fabric) -> Iterator[Unknown]:
    ranges = FABRIC_RANGES.get(fabric.name)
    if ranges is None:
        return

    def changed(latency: float = 1.0, payload: float = 1.0, core: float = 1.0) -> Variant:
        other = replace(
            fabric,
            latency_s=fabric.latency_s * latency,
            payload=min(fabric.payload * payload, 1.0),
            core_Bps=fabric.core_Bps * core,
        )
        return Variant(replace(cluster, fabric=other))

    low, high = ranges.latency
    why = f"latency of a hop by {fabric.name}, {low:g} to {high:g} times {fabric.latency_s * 1e6:g} us: "
    yield Unknown("fabric_latency", why + ranges.why_latency, changed(latency=low), changed(latency=high))
    low, high = ranges.payload
    why = f"payload of {fabric.name}, {low:g} to {high:g} times {fabric.payload:.0%} of the line: "
    slow, quick = ranges.core
    yield Unknown(PAYLOAD, why + ranges.why_payload, changed(1.0, high, quick), changed(1.0, low, slow))
    if fabric.name in PLUGINS:
        less, more, quick, slow = PLUGINS[fabric.name]
        yield Unknown(
            "plugin",
            f"a hop with Simple by {fabric.name}'s plugin is published nowhere, {less:g} to {more:g} times the model's",
            Variant(latency=less, transfer=quick, fill=less, protocols=("simple",)),
            Variant(latency=more, transfer=slow, fill=more, protocols=("simple",)),
        )


def _release(cluster: Cluster, graphs: Mapping[Pattern, Channels]) -> Iterator[Unknown]:
    times = slower_before(NcclCommunicator(as_shown(cluster), graphs))
    if times > 1:
        yield Unknown(
            "release",
            "NCCL before 2.29 gives a peer of another machine fewer channels (--nccl RELEASE; "
            "NCCL_NCHANNELS_PER_NET_PEER gives it more)",
            Variant(),
            Variant(transfer=times, algorithms=("p2p",)),
        )


def _size(cluster: Cluster, fabric: Fabric) -> Unknown:
    """More machines than were ever compared: stragglers and routes that collide, a little more with each doubling."""
    doublings = log2(cluster.nodes / COMPARED_NODES)
    slow = replace(cluster, fabric=replace(fabric, payload=fabric.payload * 0.95**doublings))
    return Unknown(
        "size",
        f"{cluster.nodes} machines; the model was compared with {COMPARED_NODES} at most: stragglers and colliding "
        "routes, 5 % of the bandwidth and 10 % of the latency with each doubling",
        Variant(),
        Variant(slow, latency=1.1**doublings),
    )
