"""The bandwidth that channels get of the links within a machine, by how many of their hops share each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from math import inf

from ringtree.machines.clusters import Cluster
from ringtree.machines.machine import DeviceKind, LinkKind
from ringtree.nccl.graphs.system import System
from ringtree.nccl.transport.figures import HOST_ONE_WAY, HOST_TWO_WAYS


@lru_cache(maxsize=64)
def channel_GBps(cluster: Cluster, orders: tuple[tuple[int, ...], ...], chain: bool) -> tuple[float, LinkKind]:
    """Bandwidth of a channel where all are as fast, by the link that most hops share, and that link's kind. NCCL's
    search has a ladder of speeds, and finds the step below. A hop without peer access goes up to the host's memory and
    down again, so GPUs below one switch share the switch's link to the CPU. `chain`: rings are not closed."""
    system = System(cluster)
    closed = cluster.nodes == 1 and not chain
    loads = Counter(edge for a, b in hops(orders, closed) for edge in system.gpu_path(a, b).edges)
    least = inf, LinkKind.PCIE
    for number, load in loads.items():
        edge = system.edges[number]
        ends = {system.devices[edge.source].kind, system.devices[edge.target].kind}
        share = HOST_TWO_WAYS if DeviceKind.GPU in ends and edge.reverse in loads else HOST_ONE_WAY
        GBps = edge.capacity_MBps / 1e3 / load * (share if edge.kind is LinkKind.PCIE else 1.0)
        least = min(least, (GBps, edge.kind))
    return least


def hops(orders: tuple[tuple[int, ...], ...], closed: bool) -> Iterator[tuple[int, int]]:
    """(sender, receiver) by local rank, of all channels; from the last GPU to the first where rings are `closed`."""
    for order in orders:
        yield from pairwise((*order, order[0]) if closed else order)
