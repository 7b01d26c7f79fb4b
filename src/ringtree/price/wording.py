"""Cuts in words."""

from __future__ import annotations

from collections.abc import Container

import numpy as np
from numpy.typing import NDArray

from ringtree.price.cuts import Cut
from ringtree.topology import Topology

MANY = 256
"""Of more links the first tell what all are."""


def narrow(topology: Topology, cut: Cut, *, leaves: bool = False, nics: Container[str] = ()) -> str:
    """`the 8 NIC links into host 0 (rail0 -> node0/nic0), 400 GB/s`: by the smaller side's name. `leaves`: the bytes
    leave the cut's nodes. `nics`: what NICs are called in a node."""
    inside = ~cut.inside if leaves else cut.inside
    links = np.flatnonzero(inside[topology.target] & ~inside[topology.source] & (topology.bandwidth_Bps > 0))
    ranks = np.flatnonzero(inside[: topology.ranks])
    others = np.flatnonzero(~inside[: topology.ranks])
    what = f"{_kind(topology, links, nics)}link"
    count = f"the {len(links):,} {what}s" if len(links) > 1 else f"the {what}"
    small = (ranks, "into") if len(ranks) <= len(others) else (others, "out of")
    if len(ranks) == len(others) and leaves:
        small = others, "out of"
    alike = f", and {cut.sets - 1:,} more like it" if cut.sets > 1 else ""
    example = topology.link_name(int(links[0])) if len(links) else "none"
    bandwidth = f"{topology.bandwidth_Bps[links].sum() / 1e9:.4g} GB/s"
    return f"{count} {small[1]} {_ranks(topology, small[0])} ({example}), {bandwidth}{alike}"


def _kind(topology: Topology, links: NDArray[np.intp], nics: Container[str]) -> str:
    """`NIC `, where all links have one at an end; it may stand for several, `nic0-nic3`."""
    ends = ([topology.nodes[int(end[link])] for end in (topology.source, topology.target)] for link in links[:MANY])
    found = [any(name.rpartition("/")[2].partition("-")[0] in nics for name in pair) for pair in ends]
    return "NIC " if found and all(found) else ""


def _ranks(topology: Topology, ranks: NDArray[np.intp]) -> str:
    """One rank, the hosts that they are all of, or how many."""
    if len(ranks) == 1:
        return topology.nodes[int(ranks[0])]
    hosts = np.unique(topology.hosts[ranks])
    if len(hosts) < len(np.unique(topology.hosts)) and np.isin(topology.hosts, hosts).sum() == len(ranks):
        return f"host {hosts[0]}" if len(hosts) == 1 else f"{len(hosts):,} hosts"
    return f"{len(ranks):,} of {topology.ranks:,} ranks"
