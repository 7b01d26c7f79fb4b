"""The channels NCCL would find on a cluster, pattern by pattern."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from ringtree.machines.channels import Channels, Pattern
from ringtree.machines.clusters import Cluster
from ringtree.machines.machine import PathKind
from ringtree.machines.nics import as_shown
from ringtree.nccl.graphs.attempt import Found
from ringtree.nccl.graphs.compute import compute
from ringtree.nccl.graphs.system import System
from ringtree.nccl.tuning.communicator import NcclCommunicator

MOST_RINGS = 32
MOST_CHANNELS = 64
MOST_GPUS = 640
FALLBACK_Bps = 0.1e9
"""The properties of the one channel, in the GPUs' order, that NCCL makes where no search succeeds."""
NVLS_SM = 90


def graphs(cluster: Cluster) -> dict[Pattern, Channels]:
    """RING and TREE (its `pattern` is the kind of tree), NVLS where GPUs of sm90 or later share NVSwitches,
    COLLNET_CHAIN and COLLNET_DIRECT where the switches reduce; nothing for a machine without GPUs. Every machine of the
    cluster has the same ones, so the cost does not depend on `nodes`. Counts and speeds are those of NCCL's "Pattern …
    nChannels" lines, rings and trees cut to as many as both have. ValueError for more GPUs than NCCL takes."""
    return dict(_graphs(_alike(cluster)))


def communicator_channels(found: dict[Pattern, Channels], cluster: Cluster) -> int:
    """The number of channels a communicator opens, as in NCCL's "Channel 00/24": twice the rings, the second of each
    with the other tree of a pair; more where CollNet leaves links idle or few fast rings leave the machine. 0 without
    GPUs.
    """
    return NcclCommunicator(cluster, found).channels


def _alike(cluster: Cluster) -> Cluster:
    """The properties that the channels depend on: the NICs shown to NCCL, and whether there is a second machine."""
    return replace(as_shown(cluster), nodes=min(cluster.nodes, 2), oversubscription=1.0)


@lru_cache(maxsize=64)
def _graphs(cluster: Cluster) -> tuple[tuple[Pattern, Channels], ...]:
    if not cluster.machine.gpus:
        return ()
    if (gpus := len(cluster.machine.gpus)) > MOST_GPUS:
        raise ValueError(f"{cluster.machine.name}: {gpus} GPUs in a machine; NCCL takes at most {MOST_GPUS}")
    system = System(cluster)
    ring = compute(system, Pattern.RING, 1, MOST_RINGS)
    count = ring.count if ring else 1
    tree = compute(system, Pattern.BALANCED_TREE, count, count)
    both = min(count, tree.count if tree else 1)
    found = {
        Pattern.RING: _channels(system, Pattern.RING, ring, both),
        Pattern.TREE: _channels(system, Pattern.BALANCED_TREE, tree, both),
    }
    more = []
    if cluster.sharp and cluster.nodes > 1:
        more += [(Pattern.COLLNET_CHAIN, compute(system, Pattern.TREE, count, count))]
        more += [(Pattern.COLLNET_DIRECT, compute(system, Pattern.COLLNET_DIRECT, 1, MOST_CHANNELS))]
    if system.reaches_switch and system.sm >= NVLS_SM and len(system.gpus) > 1:
        more += [(Pattern.NVLS, compute(system, Pattern.NVLS, 1, MOST_CHANNELS))]
    found |= {pattern: _channels(system, pattern, f, f.count) for pattern, f in more if f is not None}
    return tuple(found.items())


def _channels(system: System, pattern: Pattern, found: Found | None, count: int) -> Channels:
    nics: tuple[tuple[int, int], ...]
    if found is None:
        order = tuple(range(len(system.gpus)))
        near = tuple((system.local_nets[g] or (0,))[0] for g in (order[0], order[-1])) if system.inter else ()
        nics = ((near[0], near[1]),) if near else ()
        kinds = (PathKind.SYS, PathKind.SYS if near else PathKind.DIS)
        return Channels(pattern, (order,), nics, FALLBACK_Bps, FALLBACK_Bps if near else 0.0, *kinds)
    terms = found.terms
    nics = found.nets[:count]
    latency = system.latency_s(nics[0][0]) if nics else 0.0
    kept = pattern if pattern is Pattern.COLLNET_CHAIN else terms.pattern
    return Channels(
        kept,
        found.orders[:count],
        nics,
        terms.intra_MBps * 1e6,
        terms.inter_MBps * 1e6,
        terms.intra,
        terms.inter,
        latency,
        terms.cross_nic,
        terms.same,
    )
