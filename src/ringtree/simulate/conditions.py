"""Disturbances: ranks that start late or run slow, links that are slowed or have failed, jitter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from numbers import Real

import numpy as np
from numpy.typing import NDArray

from ringtree.topology import Topology

MOST = 1e9
"""The largest delay in seconds and factor; a larger number, or a factor below the reciprocal, is a mistake."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """Disturbances of a simulation; by default there are none.

    `delay_s`: seconds by rank, by which it starts every job late. `slowdown`: factors by rank, on all its own work.
    `links`: factors on the bandwidth of the link from one node to another, by their numbers; 0: it has failed.
    `jitter`: the latency of every message is multiplied by 1 + jitter * x, x exponential of mean 1, drawn from `seed`.
    """

    delay_s: Mapping[int, float] = field(default_factory=dict)
    slowdown: Mapping[int, float] = field(default_factory=dict)
    links: Mapping[tuple[int, int], float] = field(default_factory=dict)
    jitter: float = 0.0
    seed: int = 0

    def check(self, topology: Topology) -> None:
        """Checks the conditions. ValueError: if the topology lacks an entry's rank or link, or a value is out of
        range."""
        most = f", at most {MOST:g}"
        rules = (("delay_s", self.delay_s, 0.0, "at least 0"), ("slowdown", self.slowdown, 1 / MOST, "more than 0"))
        for what, given, least, expected in rules:
            for rank, value in given.items():
                if not 0 <= rank < topology.ranks:
                    raise ValueError(f"{what} of rank {rank}: expected a rank of 0..{topology.ranks - 1}")
                if not isinstance(value, Real):
                    raise TypeError(f"{what} of rank {rank} is {value!r}; expected a number")
                if not least <= value <= MOST:
                    raise ValueError(f"{what} of rank {rank} is {value}; expected {expected}{most}")
        for (source, target), factor in self.links.items():
            link = topology.link(source, target)
            if not (factor == 0 or 1 / MOST <= factor <= MOST):
                name = topology.link_name(link)
                raise ValueError(f"the factor of link {name} is {factor}; expected 0, or {1 / MOST:g} to {MOST:g}")
        if not 0 <= self.jitter <= MOST:
            raise ValueError(f"jitter is {self.jitter}; expected at least 0{most}")

    def applied(self, topology: Topology) -> Topology:
        """The topology with its links under these conditions."""
        if not self.links:
            return topology
        bandwidth_Bps = topology.bandwidth_Bps.copy()
        for ends, factor in self.links.items():
            link = topology.link(*ends)
            bandwidth_Bps[link] = float(bandwidth_Bps[link]) * factor if factor else 0.0
        return replace(topology, bandwidth_Bps=bandwidth_Bps)

    def stretches(self, messages: int) -> NDArray[np.float64]:
        """The factor on each message's latency, [messages], ordered by sending rank."""
        if not self.jitter:
            return np.ones(messages)
        return 1 + self.jitter * np.random.default_rng(self.seed).exponential(size=messages)
