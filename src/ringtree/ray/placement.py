"""The placement group of a job: CPUs on nodes of Ray's cluster, and which rank gets which."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

PLACEMENTS = {"pack": "PACK", "spread": "SPREAD"}
"""Ray's strategy by our word."""
TURN_S = 0.5
"""Seconds of a single wait: Ctrl-C is noticed in between."""
REPORT_S = 10.0
"""Seconds after which a line reports the lack of CPUs."""


@dataclass(frozen=True, slots=True)
class Demand:
    """The ranks of a job and what each needs. `per_node`: as many on each node, or None.

    ValueError: if no cluster could have them.
    """

    ranks: int
    per_node: int | None
    cpus_per_rank: float
    placement: str

    def __post_init__(self) -> None:
        if self.ranks < 1:
            raise ValueError(f"{self.ranks} ranks: expected at least 1")
        if self.per_node is not None and self.per_node < 1:
            raise ValueError(f"per_node is {self.per_node}; expected at least 1 rank on a node")
        if not self.cpus_per_rank > 0:
            raise ValueError(f"cpus_per_rank is {self.cpus_per_rank}; expected more than 0: Ray places by CPUs")
        if self.placement not in PLACEMENTS:
            raise ValueError(f"placement is {self.placement!r}; expected {' or '.join(PLACEMENTS)}")
        if self.per_node is not None and self.placement != "pack":
            raise ValueError("per_node fills one node after the other; expected it without placement='spread'")

    def bundles(self) -> list[int]:
        """The ranks of each bundle: a bundle lies on one node."""
        each = self.per_node or 1
        return [min(each, self.ranks - first) for first in range(0, self.ranks, each)]

    @property
    def strategy(self) -> str:
        """Ray's word: nodes that have `per_node` ranks are different ones."""
        return "STRICT_SPREAD" if self.per_node else PLACEMENTS[self.placement]

    def __str__(self) -> str:
        where = f", {self.per_node} on each node" if self.per_node else ""
        return f"{self.ranks} ranks of {self.cpus_per_rank:g} CPUs{where}"


@dataclass(frozen=True, slots=True)
class Place:
    """A rank's place. `node`: the address of the node, and the beginning of Ray's number of it."""

    bundle: int
    node: str


@contextmanager
def placed(demand: Demand, limit_s: float) -> Iterator[tuple[Any, list[Place]]]:
    """A placement group, and each rank's place in it: ranks of one node follow each other. It is removed at the end,
    and what runs in it ends. TimeoutError: if the cluster has no room within `limit_s`."""
    from ray.util.placement_group import placement_group, remove_placement_group

    sizes = demand.bundles()
    bundles = [{"CPU": demand.cpus_per_rank * size} for size in sizes]
    group = placement_group(bundles, strategy=demand.strategy)
    try:
        _wait(group, demand, limit_s)
        yield group, _places(group, sizes)
    finally:
        remove_placement_group(group)


def _wait(group: Any, demand: Demand, limit_s: float) -> None:
    began_s, reported = time.monotonic(), False
    while not group.wait(TURN_S):
        waited_s = time.monotonic() - began_s
        if waited_s > limit_s:
            raise TimeoutError(
                f"no room for {demand} within {limit_s:g} s: {_cluster()}; expected more nodes, fewer ranks, or a "
                "longer RINGTREE_TIMEOUT"
            )
        if waited_s > REPORT_S and not reported:
            logging.getLogger("ringtree.ray").warning("waiting for room for %s: %s", demand, _cluster())
            reported = True


def _places(group: Any, sizes: list[int]) -> list[Place]:
    import ray
    from ray.util.placement_group import placement_group_table

    addresses = {node["NodeID"]: node["NodeManagerAddress"] for node in ray.nodes()}
    node_of: dict[int, str] = placement_group_table(group)["bundles_to_node_id"]
    order = list(dict.fromkeys(node_of[bundle] for bundle in range(len(sizes))))
    by_node = sorted(range(len(sizes)), key=lambda bundle: order.index(node_of[bundle]))
    named = [f"{addresses[node_of[bundle]]} ({node_of[bundle][:8]})" for bundle in range(len(sizes))]
    return [Place(bundle, named[bundle]) for bundle in by_node for _ in range(sizes[bundle])]


def _cluster() -> str:
    """The nodes and CPUs of Ray's cluster, in words."""
    import ray

    nodes = sum(node["Alive"] for node in ray.nodes())
    have, free = ray.cluster_resources().get("CPU", 0), ray.available_resources().get("CPU", 0)
    return f"the cluster has {nodes} node{'s' if nodes != 1 else ''} with {have:g} CPUs, {free:g} of them free"
