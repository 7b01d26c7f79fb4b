"""A cluster and a lower bound's cut as JSON, for `ringtree plan` and `ringtree explain`."""

from __future__ import annotations

from math import isfinite
from typing import Any

from ringtree.machines.clusters import Cluster
from ringtree.nccl.releases import words
from ringtree.price.bounds import LowerBound


def cluster(cluster: Cluster) -> dict[str, Any]:
    """The nodes, each node's GPUs and NICs, and the network between the nodes; None for the network of one node."""
    machine, connected = cluster.machine, cluster.nodes > 1
    return {
        "name": cluster.name,
        "machine": machine.name,
        "nodes": cluster.nodes,
        "ranks": cluster.ranks,
        "gpus_per_node": len(machine.gpus),
        "gpu_models": sorted({machine.devices[g].model for g in machine.gpus} - {""}),
        "nics_per_node": len(machine.nics),
        "nic_GBps": sorted({machine.devices[n].rate_Bps / 1e9 for n in machine.nics}),
        "fabric": cluster.fabric.name if connected and cluster.fabric else None,
        "network": cluster.network.value if connected else None,
        "oversubscription": cluster.oversubscription,
        "sharp": cluster.sharp,
        "nccl": cluster.nccl and words(cluster.nccl),
    }


def cut(bound: LowerBound) -> dict[str, Any] | None:
    """The bound's narrowest cut: its links, the first ones by name, and their bandwidth together, None where it is
    infinite, for which JSON has no number."""
    found = bound.cut
    if found is None:
        return None
    return {
        "words": found.words,
        "links": list(found.links),
        "link_count": found.count,
        "GBps": found.bandwidth_Bps / 1e9 if isfinite(found.bandwidth_Bps) else None,
        "alike": found.alike,
    }
