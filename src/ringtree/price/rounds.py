"""Rounds as numbers: the cost of each row of a round, for any size.

Every cost is a + b * chunk_nbytes, so a round is read once and priced for any size.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ringtree.ir.ranges import elements
from ringtree.ir.schedule import Transfers
from ringtree.price.routes import routes
from ringtree.topology import Topology

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def distinct(values: Ints) -> Ints:
    """The distinct values, sorted. (np.unique hashes whole numbers, which takes several times as long.)"""
    ordered = np.sort(values)
    found: Ints = ordered[np.diff(ordered, prepend=-1) != 0]
    return found


class RoutedPairs:
    """The routes of the given pairs of ranks, each looked up once; `queued`: whether their messages wait in the queues
    of links."""

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
        self.queued = np.zeros(len(starts), np.bool_)
        if topology.fifo_between_hosts:
            self.queued = topology.hosts[ends[0]] != topology.hosts[ends[1]]

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

    def upto(self, group: Ints) -> LinearCost:
        """The sum of each row and those before it in its group; rows of a group lie together."""
        return LinearCost(_upto(self.fixed_s, group), _upto(self.per_chunk_byte_s, group))


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

    def with_queues(self, links: Ints) -> MessageRound:
        """The round with queues at these links alone."""
        if not self.hops:
            return self
        hops = (hop.take(np.isin(hop.link, links)) for hop in self.hops)
        return replace(self, hops=tuple(hop for hop in hops if len(hop.row)))


def written(rows: Transfers) -> Ints:
    """The ranges written by the rows: (rank, buffer, chunk, count), a row each."""
    columns = (rows.target, rows.target_buffer, rows.target_chunk, rows.count)
    return np.stack([c.astype(np.int64) for c in columns], axis=1)


def read(rows: Transfers, routes: RoutedPairs, before: Ints) -> MessageRound:
    """One round's rows, priced. `before`: the ranges written by the round before, which are ready to be sent."""
    topology = routes.topology
    away = np.flatnonzero(rows.source != rows.target)
    source, target = rows.source[away].astype(np.int64), rows.target[away].astype(np.int64)
    number = routes.of(source, target)
    order = np.lexsort((away, routes.entry[number], source))
    away, source, number = away[order], source[order], number[order]
    chunks = rows.count[away].astype(np.float64)
    port = source * (topology.links + 1) + routes.entry[number]
    port_starts = np.flatnonzero(np.diff(port, prepend=-1) != 0)
    group = np.cumsum(np.diff(port, prepend=-1) != 0) - 1
    turn = np.arange(len(port)) - port_starts[group]
    alone = routes.per_byte_s[number] * chunks
    queued = routes.queued[number]
    met = np.where(queued, 0.0, _met(routes, number, turn, chunks))
    wire = LinearCost(np.zeros(len(away)), np.maximum(alone, met))
    whole = wire.upto(group)
    ahead = LinearCost(whole.fixed_s - wire.fixed_s, whole.per_chunk_byte_s - wire.per_chunk_byte_s)
    shared, links, link_chunks = _shared(routes, number, group, chunks)
    shared = LinearCost(shared.fixed_s, np.where(queued, 0.0, shared.per_chunk_byte_s))
    receiver, arrival, rest = _receivers(topology, rows, away)
    return MessageRound(
        source,
        port,
        port_starts,
        np.flatnonzero(np.diff(source, prepend=-1) != 0),
        _handed(topology, rows, away, source, before),
        ahead,
        wire,
        shared,
        routes.latency_s[number],
        arrival,
        receiver[np.flatnonzero(np.diff(receiver, prepend=-1) != 0)],
        np.flatnonzero(np.diff(receiver, prepend=-1) != 0),
        rest,
        links,
        link_chunks,
        _hops(routes, number, queued, chunks) if queued.any() else (),
    )


def _upto(values: Floats, group: Ints) -> Floats:
    total = np.cumsum(values)
    starts = np.flatnonzero(np.diff(group, prepend=-1) != 0)
    before = (total - values)[starts]
    found: Floats = total - before[group]
    return found


def _shared(routes: RoutedPairs, number: Ints, port: Ints, chunks: Floats) -> tuple[LinearCost, Ints, Floats]:
    """Each row's fullest link among those where several ports meet; and all links with their chunks."""
    row, link = routes.spread(number)
    used, index = np.unique(link, return_inverse=True)
    load: Floats = np.bincount(index, chunks[row], len(used)).astype(np.float64)
    low, high = np.full(len(used), np.iinfo(np.int64).max), np.full(len(used), -1)
    np.minimum.at(low, index, port[row])
    np.maximum.at(high, index, port[row])
    meet = (low < high)[index]
    most = np.zeros(len(number))
    full = load / routes.topology.bandwidth_Bps[used]
    np.maximum.at(most, row[meet], full[index[meet]])
    return LinearCost(np.zeros(len(number)), most), used, load


def _hops(routes: RoutedPairs, number: Ints, queued: NDArray[np.bool_], chunks: Floats) -> tuple[Hop, ...]:
    """The links beyond the port of the queued rows: the second of each route, then the third, and so on."""
    first, last = routes.first[number], routes.first[number + 1]
    hops = []
    for k in range(1, int((last - first)[queued].max())):
        row = np.flatnonzero(queued & (first + k < last))
        link = routes.link[first[row] + k]
        lasts = chunks[row] / routes.topology.bandwidth_Bps[link]
        hops.append(Hop(row, link, LinearCost(np.zeros(len(row)), lasts)))
    return tuple(hops)


def _met(routes: RoutedPairs, number: Ints, turn: Ints, chunks: Floats) -> Floats:
    """Seconds of each message's fullest link, over the messages of the same turn at their ports."""
    if not np.any(turn):  # one turn alone: see _shared
        return np.zeros(len(number))
    row, link = routes.spread(number)
    key = link * (int(turn.max(initial=0)) + 1) + turn[row]
    order = np.argsort(key, kind="stable")
    starts = np.flatnonzero(np.diff(key[order], prepend=-1))
    load = np.add.reduceat(chunks[row[order]], starts) if len(starts) else np.zeros(0)
    full = np.zeros(len(key))
    full[order] = np.repeat(load, np.diff(starts, append=len(key)))
    most = np.zeros(len(number))
    np.maximum.at(most, row, full / routes.topology.bandwidth_Bps[link])
    return most


def _handed(topology: Topology, rows: Transfers, away: Ints, source: Ints, before: Ints) -> LinearCost:
    """A message each, and a copy of each range that is not ready; one copy serves all its receivers."""
    order = np.lexsort((away, source))
    at = away[order]
    copies = np.zeros(len(at), np.bool_)
    if topology.step_s or topology.copy_Bps < np.inf:
        columns = (rows.source, rows.source_buffer, rows.source_chunk, rows.count)
        ranges = np.stack([c[at].astype(np.int64) for c in columns], axis=1)
        both, number = np.unique(np.concatenate([before, ranges]), axis=0, return_inverse=True)
        number = number.reshape(-1)
        ready = np.zeros(len(both), np.bool_)
        ready[number[: len(before)]] = True
        opens = np.zeros(len(at), np.bool_)
        opens[np.unique(number[len(before) :], return_index=True)[1]] = True
        copies = opens & ~ready[number[len(before) :]]
    fixed_s: Floats = topology.message_s + topology.step_s * copies.astype(np.float64)
    copied = np.where(copies, rows.count[at], 0).astype(np.float64)
    handed = LinearCost(fixed_s, copied * (1 / topology.copy_Bps))
    group = np.cumsum(np.diff(source[order], prepend=-1) != 0) - 1
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    return handed.upto(group).take(back)


def _receivers(topology: Topology, rows: Transfers, away: Ints) -> tuple[Ints, Ints, LinearCost]:
    """(receiver, its message's position in `away` or -1, its work from there on). The contributions of several messages
    to one range are added when the last one has arrived."""
    message = np.full(len(rows), -1)
    message[away] = np.arange(len(away))
    order = np.argsort(rows.target, kind="stable")
    target, message = rows.target[order].astype(np.int64), message[order]
    count, reduce = rows.count[order], rows.reduce[order]
    per_byte_s = np.where(reduce, count / topology.reduce_Bps, count / topology.copy_Bps)
    fixed_s = np.where(message >= 0, topology.message_s, 0.0)
    if topology.step_s or np.any(per_byte_s):
        columns = (target, rows.target_buffer[order], rows.target_chunk[order], count)
        number = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)[1].reshape(-1)
        last = np.zeros(int(number.max(initial=-1)) + 1, np.int64)
        np.maximum.at(last, number, np.arange(len(number)))
        work_s = np.bincount(last[number], per_byte_s, len(number))
        per_byte_s, fixed_s = work_s, fixed_s + topology.step_s * (last[number] == np.arange(len(number)))
    group = np.cumsum(np.diff(target[::-1], prepend=-1) != 0) - 1
    rest = LinearCost(fixed_s[::-1], per_byte_s[::-1]).upto(group)
    return target, message, LinearCost(rest.fixed_s[::-1], rest.per_chunk_byte_s[::-1])


NOTHING = np.zeros((0, 4), np.int64)
"""The ranges written before the first round."""
