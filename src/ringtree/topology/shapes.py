"""Topologies of a shape. `costs` are a rank's own: message_s, step_s, copy_Bps, reduce_Bps (see Topology).

`latency_s` is a message's from one rank to the next reachable one, so half of it is on either side of a switch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np
from numpy.typing import NDArray

from ringtree.topology.graph import Topology

Nodes = NDArray[np.int64]
LATENCY_S = 1e-6
BANDWIDTH_BPS = 10e9
MOST_DIRECT = 5000
"""More ranks than this have too many links of their own: 25 million."""


def direct(
    ranks: int, *, latency_s: float = LATENCY_S, bandwidth_Bps: float = BANDWIDTH_BPS, **costs: float
) -> Topology:
    """Ranks with a link from every one to every other. ValueError: if there are too many links. `costs` as in
    Topology."""
    if ranks > MOST_DIRECT:
        raise ValueError(
            f"direct: {ranks * (ranks - 1):,} links for {ranks} ranks; expected at most {MOST_DIRECT} ranks"
        )
    source = np.repeat(np.arange(ranks), max(ranks - 1, 0))
    target = np.tile(np.arange(ranks - 1), ranks) if ranks > 1 else source
    target = target + (target >= source)
    return Topology.of("direct", ranks, _names(ranks), source, target, latency_s, bandwidth_Bps, **costs)


def switch(
    ranks: int, *, latency_s: float = LATENCY_S, bandwidth_Bps: float = BANDWIDTH_BPS, **costs: float
) -> Topology:
    """Ranks at one switch that never blocks: a link up to it and one down from it for each. `costs` as in Topology."""
    rank = np.arange(ranks)
    source, target = _both_ways(rank, np.full(ranks, ranks))
    nodes = (*_names(ranks), "switch")
    return Topology.of("switch", ranks, nodes, source, target, latency_s / 2, bandwidth_Bps, **costs)


def ring(ranks: int, *, latency_s: float = LATENCY_S, bandwidth_Bps: float = BANDWIDTH_BPS, **costs: float) -> Topology:
    """Ranks in a ring: a link each way between neighbours; messages between others pass through the ranks between."""
    return _grid("ring", (ranks,), latency_s, bandwidth_Bps, costs)


def torus(*dims: int, latency_s: float = LATENCY_S, bandwidth_Bps: float = BANDWIDTH_BPS, **costs: float) -> Topology:
    """A grid that is closed in every dimension, a link each way between neighbours. The last dimension's neighbours
    have consecutive ranks. ValueError: if there are no dimensions."""
    if not dims:
        raise ValueError("torus: no dimensions; expected such as 4, 4")
    if not all(hasattr(size, "__index__") for size in dims):
        raise TypeError(f"torus: {', '.join(map(repr, dims))}; expected whole numbers, such as 4, 4")
    return _grid("torus " + "x".join(map(str, dims)), dims, latency_s, bandwidth_Bps, costs)


def cluster(
    hosts: int,
    ranks_per_host: int,
    *,
    nics: int = 1,
    latency_s: float = 5e-6,
    bandwidth_Bps: float = 25e9,
    local_latency_s: float = LATENCY_S,
    local_bandwidth_Bps: float = 100e9,
    **costs: float,
) -> Topology:
    """Hosts on a network that never blocks. Inside a host a switch joins the ranks, at the local latency and bandwidth;
    each rank has one of the host's NICs, near ranks the same one, and reaches it at those too. `latency_s` and
    `bandwidth_Bps` are the network's: from NIC to NIC, and of each NIC, each way."""
    for what, count in (("hosts", hosts), ("ranks_per_host", ranks_per_host), ("nics", nics)):
        if count < 1:
            raise ValueError(f"cluster: {what} is {count}; expected at least 1")
    if nics > ranks_per_host:
        raise ValueError(f"cluster: {nics} nics for {ranks_per_host} ranks a host; expected at most one a rank")
    ranks = hosts * ranks_per_host
    rank = np.arange(ranks)
    host, local = rank // ranks_per_host, rank % ranks_per_host
    first_nic = ranks + hosts
    network = first_nic + hosts * nics
    nic = np.arange(first_nic, network)
    near = [
        _both_ways(rank, ranks + host),  # the switch is listed first: ranks of a host do not meet through a NIC
        _both_ways(rank, first_nic + host * nics + local * nics // ranks_per_host),
    ]
    far = _both_ways(nic, np.full(len(nic), network))
    source, target = (np.concatenate([near[0][end], near[1][end], far[end]]) for end in (0, 1))
    away = np.arange(len(source)) >= 4 * ranks
    nodes = (
        *_names(ranks),
        *(f"switch{h}" for h in range(hosts)),
        *(f"nic{h}.{k}" if nics > 1 else f"nic{h}" for h in range(hosts) for k in range(nics)),
        "network",
    )
    return Topology.of(
        f"cluster {hosts}x{ranks_per_host}",
        ranks,
        nodes,
        source,
        target,
        np.where(away, latency_s, local_latency_s) / 2,
        np.where(away, bandwidth_Bps, local_bandwidth_Bps),
        host,
        **costs,
    )


def on_hosts(
    host_of: Sequence[int],
    *,
    latency_s: float = 5e-6,
    bandwidth_Bps: float = 25e9,
    local_latency_s: float = LATENCY_S,
    local_bandwidth_Bps: float = 100e9,
    fifo_between_hosts: bool = False,
    **costs: float,
) -> Topology:
    """Ranks on hosts of any sizes, in any order: rank r is on host `host_of[r]`. Each host has one NIC; otherwise as
    `cluster`. `fifo_between_hosts`: see `Topology`."""
    if not len(host_of):
        raise ValueError("on_hosts: no ranks; expected the host of each rank")
    ranks = len(host_of)
    known, host = np.unique(np.asarray(host_of, np.int64), return_inverse=True)
    hosts, rank = len(known), np.arange(ranks)
    nic = np.arange(ranks + hosts, ranks + 2 * hosts)
    ends = [
        _both_ways(rank, ranks + host),
        _both_ways(rank, nic[host]),
        _both_ways(nic, np.full(hosts, ranks + 2 * hosts)),
    ]
    source, target = (np.concatenate([end[k] for end in ends]) for k in (0, 1))
    away = np.arange(len(source)) >= 4 * ranks
    nodes = (*_names(ranks), *(f"switch{h}" for h in known), *(f"nic{h}" for h in known), "network")
    shared = Topology.of(
        f"{ranks} ranks on {hosts} hosts",
        ranks,
        nodes,
        source,
        target,
        np.where(away, latency_s, local_latency_s) / 2,
        np.where(away, bandwidth_Bps, local_bandwidth_Bps),
        host,
        **costs,
    )
    return replace(shared, fifo_between_hosts=fifo_between_hosts)


def _grid(
    name: str, dims: tuple[int, ...], latency_s: float, bandwidth_Bps: float, costs: dict[str, float]
) -> Topology:
    if min(dims) < 1:
        raise ValueError(f"{name}: a dimension of {min(dims)}; expected at least 1")
    grid = np.arange(prod(dims)).reshape(dims)
    pairs = set[tuple[int, int]]()
    for axis in range(len(dims)):
        neighbour = np.roll(grid, -1, axis)
        for a, b in zip(grid.ravel().tolist(), neighbour.ravel().tolist(), strict=True):
            pairs |= {(a, b), (b, a)} if a != b else set()
    source, target = np.array(sorted(pairs), np.int64).reshape(-1, 2).T
    return Topology.of(name, grid.size, _names(grid.size), source, target, latency_s, bandwidth_Bps, **costs)


def _both_ways(a: Nodes, b: Nodes) -> tuple[Nodes, Nodes]:
    return np.concatenate([a, b]), np.concatenate([b, a])


def _names(ranks: int) -> tuple[str, ...]:
    return tuple(f"rank{r}" for r in range(ranks))
