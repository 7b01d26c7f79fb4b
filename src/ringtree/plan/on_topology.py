"""The choice of an algorithm on a topology: the one with the least price."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ringtree.algorithms import build
from ringtree.algorithms.groups import host_group
from ringtree.ir.collective import collective as find_collective
from ringtree.ir.schedule import Schedule
from ringtree.plan.choice import NOTEWORTHY, shortlist
from ringtree.price import seconds
from ringtree.topology import Topology


def choose_on(
    collective: str,
    topology: Topology,
    members: Sequence[int],
    nbytes: int,
    root: int | None = None,
    algorithm: str | None = None,
) -> Schedule:
    """The quickest schedule, of those in question for its number of ranks, over these ranks of the topology; that of
    `algorithm`, where it is given. ValueError: if no algorithm serves the collective over them."""
    root = root or 0 if find_collective(collective).rooted else None
    place, best, refused = among(topology, members), None, ""
    host_of = place.hosts.tolist()
    if algorithm is not None:
        return build(algorithm, collective, len(members), root, **host_group(algorithm, collective, host_of))
    for name in shortlist(collective, len(members)):
        try:
            schedule = build(name, collective, len(members), root, **host_group(name, collective, host_of))
        except ValueError as refusal:  # it serves other numbers of ranks
            refused = str(refusal)
            continue
        taken_s = seconds(schedule, place, nbytes)
        if best is None or taken_s < best[0] * (1 - NOTEWORTHY):
            best = taken_s, schedule
    if best is None:
        raise ValueError(refused)
    return best[1]


def among(topology: Topology, members: Sequence[int]) -> Topology:
    """The topology with these ranks alone, renumbered in this order; the others forward messages, as switches do."""
    if list(members) == list(range(topology.ranks)):
        return topology
    nodes = [*members, *sorted(set(range(len(topology.nodes))) - set(members))]
    number = np.empty(len(nodes), np.int32)
    number[nodes] = np.arange(len(nodes))
    return replace(
        topology,
        ranks=len(members),
        nodes=tuple(topology.nodes[node] for node in nodes),
        source=number[topology.source],
        target=number[topology.target],
        hosts=topology.hosts[list(members)],
    )
