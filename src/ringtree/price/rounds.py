"""Rounds as numbers: the cost of each row of a round, for any size.

Every cost is a + b * chunk_nbytes, so a round is read once and priced for any size.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ringtree.ir.ranges import elements
from ringtree.price.routes import routes
from ringtree.topology import Topology
from ringtree.topology.queues import in_queues

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def distinct(values: Ints) -> Ints:
    """The distinct values, sorted. (np.unique hashes whole numbers, which takes several times as long.)"""
    ordered = np.sort(values)
    found: Ints = ordered[np.diff(ordered, prepend=-1) != 0]
    return found


class RoutedPairs:
    """The routes of the given pairs of ranks, each looked up once. `work_s`: a message's work at either end; `queued`:
    whether messages wait in the queues of links."""

    def __init__(self, topology: Topology, source: Ints, target: Ints) -> None:
        self.topology = topology
        self.keys = distinct(source * len(topology.nodes) + target)
        ends = np.divmod(self.keys, len(topology.nodes))
        self.first, self.link = routes(topology, *ends)
        starts = self.first[:-1]
        self.latency_s, self.per_byte_s, self.entry = np.zeros(len(starts)), np.zeros(len(starts)), self.link[starts]
        if len(starts):
            self.latency_s = np.add.reduceat(topology.latency_s[self.link], starts)
            self.per_byte_s = 1 / np.minimum.reduceat(topology.bandwidth_Bps[self.link], starts)
        self.work_s = topology.message_work_s(*ends)
        self.queued = in_queues(topology, *ends, self.first, self.link)

    def of(self, source: Ints, target: Ints) -> Ints:
        """The number of each pair."""
        return np.searchsorted(self.keys, source * len(self.topology.nodes) + target)

    def spread(self, number: Ints) -> tuple[Ints, Ints]:
        """Rows by the links that they take: (row, link)."""
        row, at = elements(self.first[number], self.first[number + 1] - self.first[number])
        return row, self.link[at]


@dataclass(frozen=True, slots=True)
class LinearCost:
    """a + b * chunk_nbytes seconds, a row each."""

    fixed_s: Floats
    per_chunk_byte_s: Floats

    def seconds(self, chunk_nbytes: float) -> Floats:
        """Returns the seconds of each row for chunks of `chunk_nbytes`."""
        total: Floats = self.fixed_s + self.per_chunk_byte_s * chunk_nbytes
        return total

    def take(self, index: Ints) -> LinearCost:
        """Returns the rows at `index`, in that order."""
        return LinearCost(self.fixed_s[index], self.per_chunk_byte_s[index])

    def of(self, rows: slice) -> LinearCost:
        """Returns those rows, without a copy of them."""
        return LinearCost(self.fixed_s[rows], self.per_chunk_byte_s[rows])


@dataclass(frozen=True, slots=True, eq=False)
class Hop:
    """A link each, `link`, that messages of a round pass, `row`, and the seconds of their bytes on it, `lasts`."""

    row: Ints
    link: Ints
    lasts: LinearCost

    def take(self, which: NDArray[np.bool_]) -> Hop:
        """Returns the hop of these messages alone."""
        return Hop(self.row[which], self.link[which], self.lasts.take(np.flatnonzero(which)))


@dataclass(frozen=True, slots=True, eq=False)
class MessageRound:
    """Messages are sorted by port, the link of a rank by which they leave; `port_starts` is each port's first row.
    `hand`: seconds from the sender's start of the round until it has handed the message over; `ahead`: of the messages
    before it on the port; `wire`: its own, beside the messages of other ports in the same turn; `shared`: of all bytes
    on its fullest link in this round, where several ports meet. `hops`: of messages that wait in the queues of links,
    their links beyond the port, one after the other. `arrival` are receivers' rows, sorted by receiver, by their
    message's position (-1: local work); `rest` is the receiver's work from that row on."""

    sender: Ints
    port: Ints
    port_starts: Ints
    sender_starts: Ints
    hand: LinearCost
    ahead: LinearCost
    wire: LinearCost
    shared: LinearCost
    latency_s: Floats
    arrival: Ints
    receiver: Ints
    receiver_starts: Ints
    rest: LinearCost
    links: Ints
    link_chunks: Floats
    hops: tuple[Hop, ...] = ()

    def with_queues(self, at: NDArray[np.bool_]) -> MessageRound:
        """The round with queues at these links alone; `at` [links]."""
        if not self.hops:
            return self
        hops = (hop.take(at[hop.link]) for hop in self.hops)
        return replace(self, hops=tuple(hop for hop in hops if len(hop.row)))
