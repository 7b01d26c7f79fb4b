"""A topology: nodes and directed links between them. The machine model of simulations and prices.

Ranks are the first nodes; the others are switches, which forward messages. A route may also pass through
a rank. Units: seconds, bytes, bytes a second.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

LINK_COLUMNS: dict[str, type[np.generic]] = {
    "source": np.int32,
    "target": np.int32,
    "latency_s": np.float64,
    "bandwidth_Bps": np.float64,
}
COSTS = {"message_s": 0.0, "away_message_s": 0.0, "step_s": 0.0, "copy_Bps": inf, "reduce_Bps": inf}
"""The cost parameters of a rank's own work, with their defaults: nothing."""
LONGEST_S = 1e9
SLOWEST_BPS = 1e-9
"""Numbers beyond these are mistakes, and would overflow a double in times."""


@dataclass(frozen=True, eq=False)
class Topology:
    """Ranks and switches as nodes, and links as columns [links]; at most one link goes from one node to another. A link
    of bandwidth 0 has failed.

    `nodes` are their names, `hosts` [ranks] each rank's host (all on one by default). A rank's own work costs
    `message_s` a message, at either end, and `away_message_s` more where the ends are on two hosts, `step_s` a copy or
    a reduction, and its bytes over `copy_Bps` or `reduce_Bps`. `fifo_between_hosts`: each link serves messages from
    host to host, and others that share a link with them, one after the other, first come, first served, not all at
    once in fair parts.
    """

    name: str
    ranks: int
    nodes: tuple[str, ...]
    source: NDArray[np.int32]
    target: NDArray[np.int32]
    latency_s: NDArray[np.float64]
    bandwidth_Bps: NDArray[np.float64]
    hosts: NDArray[np.int32]
    message_s: float = COSTS["message_s"]
    away_message_s: float = COSTS["away_message_s"]
    step_s: float = COSTS["step_s"]
    copy_Bps: float = COSTS["copy_Bps"]
    reduce_Bps: float = COSTS["reduce_Bps"]
    fifo_between_hosts: bool = False

    @staticmethod
    def of(
        name: str,
        ranks: int,
        nodes: tuple[str, ...],
        source: ArrayLike,
        target: ArrayLike,
        latency_s: ArrayLike,
        bandwidth_Bps: ArrayLike,
        hosts: ArrayLike = 0,
        **costs: float,
    ) -> Topology:
        """A topology from columns [links] or scalars, broadcast together. ValueError: at the first impossible
        element."""
        spread = np.broadcast_arrays(*map(np.atleast_1d, (source, target, latency_s, bandwidth_Bps)))
        columns: dict[str, Any] = {
            key: np.ascontiguousarray(c, dtype=t) for c, (key, t) in zip(spread, LINK_COLUMNS.items(), strict=True)
        }
        if strange := [c for c in costs if c not in COSTS]:
            raise ValueError(f"{name} has no {strange[0]!r}: expected one of {', '.join(COSTS)}")
        if not 1 <= ranks <= len(nodes):
            raise ValueError(f"{name}: {ranks} ranks and {len(nodes)} nodes; expected a rank at least, each a node")
        columns |= costs
        columns["hosts"] = np.array(np.broadcast_to(np.asarray(hosts, np.int32), ranks))
        topology = Topology(name, ranks, tuple(nodes), **columns)
        topology._check()
        return topology

    @property
    def links(self) -> int:
        """The number of links."""
        return len(self.source)

    def link(self, source: int, target: int) -> int:
        """The number of the link from one node to another. ValueError: if there is none."""
        for node in (source, target):
            if not 0 <= node < len(self.nodes):
                raise ValueError(f"{self.name} has no node {node}: expected 0..{len(self.nodes) - 1}")
        found = int(self.find(np.array([source]), np.array([target]))[0])
        if found < 0:
            raise ValueError(f"{self.name} has no link from {self.nodes[source]} to {self.nodes[target]}")
        return found

    def node(self, name: str) -> int:
        """The number of the node of that name. ValueError: if there is none."""
        if name not in self._numbers:
            some = ", ".join(self.nodes[:4]) + (", …" if len(self.nodes) > 4 else "")
            raise ValueError(f"{self.name} has no node {name!r}: expected one of {some}")
        return self._numbers[name]

    def link_name(self, link: int) -> str:
        """`rank0 -> switch`."""
        return f"{self.nodes[self.source[link]]} -> {self.nodes[self.target[link]]}"

    def find(self, source: NDArray[np.integer[Any]], target: NDArray[np.integer[Any]]) -> NDArray[np.intp]:
        """The number of the link between each pair of nodes, [pairs]; -1 where there is none."""
        keys, order = self._sorted
        if not len(keys):
            return np.full(len(source), -1, np.intp)
        wanted = source.astype(np.int64) * len(self.nodes) + target
        at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        return np.where(keys[at] == wanted, at if order is None else order[at], -1)

    def message_work_s(self, source: NDArray[np.integer[Any]], target: NDArray[np.integer[Any]]) -> NDArray[np.float64]:
        """Seconds that a message between each pair of nodes, [pairs], costs either end. Switches are on no host."""
        costs_s = np.full(len(source), self.message_s, dtype=np.float64)
        if self.away_message_s:
            host = np.append(self.hosts, -1)
            source_host, target_host = (host[np.minimum(end, self.ranks)] for end in (source, target))
            costs_s[(source_host != target_host) & (source_host >= 0) & (target_host >= 0)] += self.away_message_s
        return costs_s

    def route(self, source: int, target: int) -> tuple[int, ...]:
        """The links from one node to another: the fewest, then those of the least latency, then those listed first.
        None of them has failed; ValueError where there is no such route. Routes are cached: a first query costs a
        search where no direct link exists."""
        known = self._routes.get((source, target))
        if known is None:
            found = self.routes(np.array([source]), np.array([target]))
            if found is None:
                raise ValueError(f"{self.name} has no route from {self.nodes[source]} to {self.nodes[target]}")
            known = self._routes[source, target] = tuple(found[1].tolist())
        return known

    def routes(
        self, source: NDArray[np.int64], target: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
        """`route` of many pairs at once, as (first, link): those of pair k are link[first[k] : first[k + 1]]. None
        where a pair has none."""
        direct = self.find(source, target)
        there = direct >= 0
        there[there] = self.bandwidth_Bps[direct[there]] > 0
        backwards, node = [np.where(there, direct, -1)], np.where(there, source, target)
        if np.any(node != source):
            far, index = np.unique(source[node != source], return_inverse=True)
            last = np.full((len(far), len(self.nodes)), -1, dtype=np.int64)
            for k, root in enumerate(far.tolist()):
                tree = self._trees.get(root) or self._trees.setdefault(root, self._tree(root))
                last[k, list(tree)] = list(tree.values())
        while len(left := np.flatnonzero(node != source)):
            if len(left) < len(index):  # some have arrived
                index = np.searchsorted(far, source[left])
            link = last[index, node[left]]
            if np.any(link < 0):
                return None
            backwards.append(np.full(len(source), -1))
            backwards[-1][left] = link
            node[left] = self.source[link]
        table = np.stack(backwards[::-1], axis=1)
        taken = table >= 0
        return np.concatenate([[0], np.cumsum(taken.sum(axis=1))]), table[taken]

    def _tree(self, source: int) -> dict[int, int]:
        """The last link of the route to each node that can be reached: level by level, each with its least latency."""
        links, targets, latency = self._leaving, self.target, self.latency_s
        tree, level = {source: -1}, {source: 0.0}
        while level:
            reached: dict[int, float] = {}
            for node, so_far in level.items():
                for link in links(node):
                    to = int(targets[link])
                    total = so_far + float(latency[link])
                    if to not in tree or (to in reached and total < reached[to]):
                        tree[to], reached[to] = link, total
            level = reached
        return tree

    def _leaving(self, node: int) -> list[int]:
        """The links that leave a node and have not failed, as they are listed."""
        if node not in self._out:
            keys, order = self._sorted
            low, high = np.searchsorted(keys, [node * len(self.nodes), (node + 1) * len(self.nodes)])
            found = np.arange(low, high) if order is None else np.sort(order[low:high])
            self._out[node] = [int(link) for link in found[self.bandwidth_Bps[found] > 0]]
        return self._out[node]

    @cached_property
    def _sorted(self) -> tuple[NDArray[np.int64], NDArray[np.intp] | None]:
        """source * nodes + target in order, and which links they are (None: as listed)."""
        keys = self.source.astype(np.int64) * len(self.nodes) + self.target
        if np.all(keys[1:] > keys[:-1]):
            return keys, None
        order = np.argsort(keys, kind="stable")
        return keys[order], order

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.nodes)}

    @cached_property
    def _routes(self) -> dict[tuple[int, int], tuple[int, ...]]:
        return {}

    @cached_property
    def _trees(self) -> dict[int, dict[int, int]]:
        return {}

    @cached_property
    def _out(self) -> dict[int, list[int]]:
        return {}

    def _check(self) -> None:
        if len(self._numbers) < len(self.nodes):
            twice = next(n for number, n in enumerate(self.nodes) if self._numbers[n] != number)
            raise ValueError(f"{self.name}: two nodes are named {twice!r}; expected names that differ")
        for link, problem in self._faults():
            ends = ", ".join(f"{key} {getattr(self, key)[link]}" for key in LINK_COLUMNS)
            raise ValueError(f"{self.name}: link {link} ({ends}): {problem}")
        for key in COSTS:
            value, is_time = getattr(self, key), key.endswith("_s")
            if not (0 <= value <= LONGEST_S if is_time else value >= SLOWEST_BPS):
                expected = f"at least 0, at most {LONGEST_S:g}" if is_time else f"at least {SLOWEST_BPS:g}"
                raise ValueError(f"{self.name}: {key} is {value}; expected {expected}")

    def _faults(self) -> Iterator[tuple[int, str]]:
        last = len(self.nodes) - 1
        outside = [(end < 0) | (end > last) for end in (self.source, self.target)]
        rules = (
            (outside[0] | outside[1], f"expected nodes of 0..{last}"),
            (self.source == self.target, "expected two nodes"),
            (
                ~((self.latency_s >= 0) & (self.latency_s <= LONGEST_S)),
                f"expected a latency of at least 0, at most {LONGEST_S:g}",
            ),
            (
                ~((self.bandwidth_Bps == 0) | (self.bandwidth_Bps >= SLOWEST_BPS)),
                f"expected a bandwidth of 0, or at least {SLOWEST_BPS:g}",
            ),
        )
        for bad, expected in rules:
            if np.any(bad):
                yield int(np.flatnonzero(bad)[0]), expected
        keys, order = self._sorted
        if order is not None and np.any(same := keys[1:] == keys[:-1]):
            yield int(order[np.flatnonzero(same)[0] + 1]), "expected one link from a node to another; there are two"
