"""Why NCCL's pick is far from the lower bound: what its rules keep data from, on this machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise

from ringtree.ir.units import count
from ringtree.machines.channels import Channels, Pattern
from ringtree.machines.clusters import Cluster
from ringtree.machines.machine import LinkKind
from ringtree.machines.nics import as_shown
from ringtree.machines.paths import NEAR_GPUS, Paths, gdr, p2p, paths_of
from ringtree.nccl.estimate import Estimate
from ringtree.nccl.tuning.communicator import NcclCommunicator

FAR = 0.3
"""A pick is far from the bound that takes over three times as long."""
HALF = 0.5
LATENCY = 2.0
"""A call whose time is under twice its latency is latency."""


def reasons(cluster: Cluster, graphs: Mapping[Pattern, Channels], pick: Estimate) -> tuple[str, ...]:
    """The reasons why a pick may be far from the bound, each a clause; empty where nothing keeps data from a link.
    Sends and receives always have one: NCCL divides none among further ways, as the bound does."""
    comm = NcclCommunicator(as_shown(cluster), graphs)
    found = list(dict.fromkeys(_kept_from(comm, pick)))
    if pick.time_s < LATENCY * pick.latency_s:
        found.insert(0, f"latency is {pick.latency_s / pick.time_s:.0%} of the time")
    if not found and pick.algorithm == "p2p":
        found.append(
            f"data goes straight to its peer, no faster than {pick.bottleneck}; the bound takes all ways there"
        )
    return tuple(found)


def _kept_from(comm: NcclCommunicator, pick: Estimate) -> Iterator[str]:
    cluster = comm.cluster
    limit = pick.bottleneck.partition(": ")[2]
    if comm.nodes > 1 and cluster.fabric is not None and not cluster.fabric.rdma:
        each = f"{cluster.fabric.kernel_Bps / 1e9:.3g} GB/s"
        yield f"over {cluster.fabric.name} the kernel carries {each} for a rank, whatever the NIC's rate"
    if "under way" in limit:
        yield f"a connection has no more than {limit}"
    graph = None if pick.algorithm == "p2p" else comm.graph(pick.algorithm)
    if graph is not None:
        paths = paths_of(cluster.machine)
        yield from _staged(comm, graph, paths)
        yield from _unused(comm, graph)
    if pick.bottleneck.startswith("copying"):
        yield f"the GPUs' blocks copy no faster ({limit})"


def _staged(comm: NcclCommunicator, graph: Channels, paths: Paths) -> Iterator[str]:
    """The rules by which data goes through the hosts' memory: the first of those for NICs, and for pairs of GPUs."""
    for_nics, for_gpus = list[str](), list[str]()
    for channel, order in enumerate(graph.orders):
        verdicts = (gdr(paths, gpu, nic, comm.cluster.fabric) for gpu, nic in graph.at_nics(channel))
        for_nics += (v.why for v in verdicts if not v.applies)
        pairs = pairwise(order if comm.nodes > 1 else (*order, order[0]))
        for_gpus += (v.why for a, b in pairs if a != b and not (v := p2p(paths, a, b)).applies)
    yield from for_nics[:1]
    yield from for_gpus[:1]


def _unused(comm: NcclCommunicator, graph: Channels) -> Iterator[str]:
    """Links that the channels leave idle."""
    machine = comm.cluster.machine
    used, nics = {n for pair in graph.nics for n in pair}, len(machine.nics)
    if comm.nodes > 1 and len(used) < nics:
        yield f"its channels use {len(used)} of {count(nics, 'NIC')}, the nearest to their GPUs"
    if comm.per_node == 1:
        return
    own = [machine.links[n] for n in machine.leaving(machine.gpus[0])]
    near_Bps = sum(k.bandwidth_Bps for k in own if k.kind in NEAR_GPUS)
    taken_Bps = graph.count * graph.intra_Bps
    if taken_Bps < HALF * near_Bps:
        what = f"{taken_Bps / 1e9:.3g} of {near_Bps / 1e9:.3g} GB/s"
        yield f"the {count(graph.count, 'channel')} that its search finds take {what} of a GPU's links to others"
    if near_Bps and any(k.kind is LinkKind.C2C for k in own):
        yield "between GPUs it leaves C2C idle, which the bound counts"
