"""Rows as rounds of numbers: many rounds of a block are read at once, since numpy takes as long for a few rows as for
thousands."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ringtree.ir.schedule import Transfers
from ringtree.price.rounds import Hop, LinearCost, MessageRound, RoutedPairs

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
NOTHING = np.zeros((0, 4), np.int64)
"""The ranges written before the first round."""
MOST_AT_ONCE = 1 << 16
"""The most rows of several rounds that are read at once, which bounds the memory."""
FEW = 16
"""Runs of up to so many rows are added up row by row, which does not lose the digits of short ones behind long ones."""
MOST_KEY = 1 << 62
"""The bound of a row's key."""


def written(rows: Transfers) -> Ints:
    """The ranges written by the rows: (rank, buffer, chunk, count), a row each."""
    return np.stack(_ranges(rows.target, rows.target_buffer, rows.target_chunk, rows.count), axis=1)


def read(rows: Transfers, routes: RoutedPairs, before: Ints, at_once: int = MOST_AT_ONCE) -> list[MessageRound]:
    """The rounds that have rows, priced. `before`: the ranges written by the round before them, which are ready to be
    sent. `at_once`: as MOST_AT_ONCE."""
    found = list[MessageRound]()
    edges = Runs.of(rows.round).first
    for low, high in _batches(np.append(edges, len(rows)), at_once):
        some = rows.take(slice(low, high))
        rounds = Runs.of(some.round)
        found += _Batch(some, rounds, routes, before).rounds()
        before = written(some.take(slice(int(rounds.first[-1]), None)))
    return found


def _batches(edges: Ints, at_once: int) -> Iterator[tuple[int, int]]:
    """(first row, end) of as many whole rounds as are read at once."""
    at = 0
    while at < len(edges) - 1:
        end = max(int(np.searchsorted(edges, edges[at] + at_once, "right")) - 1, at + 1)
        yield int(edges[at]), int(edges[end])
        at = end


@dataclass(frozen=True, slots=True, eq=False)
class Runs:
    """Equal values that lie together: the first row of each run, and for each row its run and its place in that."""

    first: Ints
    run: Ints
    place: Ints

    @staticmethod
    def of(values: NDArray[np.integer]) -> Runs:
        """The runs of these values."""
        opens = np.ones(len(values), np.bool_)
        np.not_equal(values[1:], values[:-1], out=opens[1:])
        first = np.flatnonzero(opens)
        run = np.cumsum(opens) - 1
        return Runs(first, run, np.arange(len(values)) - first[run])

    def upto(self, values: Floats) -> Floats:
        """The sum of each row and those before it in its run."""
        most = int(self.place.max(initial=0))
        if most < FEW:
            total = values.copy()
            for place in range(1, most + 1):
                rows = np.flatnonzero(self.place == place)
                total[rows] += total[rows - 1]
            return total
        total = np.cumsum(values)
        before = (total - values)[self.first]
        found: Floats = total - before[self.run]
        return found


class _Batch:
    """Rows of whole rounds. `rounds`: the runs of their rounds."""

    def __init__(self, rows: Transfers, rounds: Runs, routes: RoutedPairs, before: Ints) -> None:
        self._rows, self._routes, self._nth = rows, routes, rounds.run
        self._count = len(rounds.first)
        topology = routes.topology
        away = np.flatnonzero(rows.source != rows.target)
        source = rows.source[away].astype(np.int64)
        number = routes.of(source, rows.target[away].astype(np.int64))
        order = np.lexsort((away, routes.entry[number], source, self._nth[away]))
        self._away, self._source, self._number = away[order], source[order], number[order]
        self._round = self._nth[self._away]
        self._port = self._source * (topology.links + 1) + routes.entry[self._number]
        self._ports = Runs.of(self._round * ((topology.links + 1) * (len(topology.nodes) + 1)) + self._port)
        self._senders = Runs.of(self._round * (len(topology.nodes) + 1) + self._source)
        self._chunks = rows.count[self._away].astype(np.float64)
        self._hand = self._handed(before)

    def rounds(self) -> list[MessageRound]:
        """Each round."""
        routes, number, chunks = self._routes, self._number, self._chunks
        queued = routes.queued[number]
        alone_s = routes.per_byte_s[number] * chunks
        wire_s = np.maximum(alone_s, np.where(queued, 0.0, self._met()))
        ahead_s = self._ports.upto(wire_s) - wire_s
        fullest_s, link_round, links, link_chunks = self._shared()
        shared_s = np.where(queued, 0.0, fullest_s)
        arrival_round, receiver, arrival, rest = self._received()
        receivers = Runs.of(arrival_round * (len(routes.topology.nodes) + 1) + receiver)
        latency_s, none = routes.latency_s[number], np.zeros(len(number))
        wire, ahead, shared = (LinearCost(none, s) for s in (wire_s, ahead_s, shared_s))
        hops = self._hops(queued)
        messages, rows, used = (self._edges(of) for of in (self._round, arrival_round, link_round))
        ports, senders = (self._edges(self._round[runs.first]) for runs in (self._ports, self._senders))
        taking = self._edges(arrival_round[receivers.first])
        found = []
        for k in range(self._count):
            m, r, low = slice(*messages[k : k + 2]), slice(*rows[k : k + 2]), messages[k]
            first = receivers.first[slice(*taking[k : k + 2])]
            found.append(
                MessageRound(
                    self._source[m],
                    self._port[m],
                    self._ports.first[slice(*ports[k : k + 2])] - low,
                    self._senders.first[slice(*senders[k : k + 2])] - low,
                    self._hand.of(m),
                    ahead.of(m),
                    wire.of(m),
                    shared.of(m),
                    latency_s[m],
                    np.where(arrival[r] < 0, -1, arrival[r] - low),
                    receiver[first],
                    first - rows[k],
                    rest.of(r),
                    links[slice(*used[k : k + 2])],
                    link_chunks[slice(*used[k : k + 2])],
                    tuple(hop for hops_of in hops if len((hop := hops_of[k]).row)),
                )
            )
        return found

    def _edges(self, rounds: Ints) -> list[int]:
        """The first row of each round, of rows of these rounds, and the end of the last one."""
        edges: list[int] = np.searchsorted(rounds, np.arange(self._count + 1)).tolist()
        return edges

    def _met(self) -> Floats:
        """Seconds of each message's fullest link, over the messages of the same turn at their ports."""
        turn = self._ports.place
        several = np.zeros(self._count, np.bool_)
        several[self._round[turn > 0]] = True
        most = np.zeros(len(turn))
        if not several.any():  # one turn alone: see _shared
            return most
        row, link = self._routes.spread(self._number)
        key = (self._round[row] * self._routes.topology.links + link) * (int(turn.max()) + 1) + turn[row]
        _, at = np.unique(key, return_inverse=True)
        load = np.bincount(at, self._chunks[row])
        np.maximum.at(most, row, load[at] / self._routes.topology.bandwidth_Bps[link])
        return np.where(several[self._round], most, 0.0)

    def _shared(self) -> tuple[Floats, Ints, Ints, Floats]:
        """Each message's seconds on the fullest link among those where several ports meet; and all links with their
        chunks: (seconds, round, link, chunks)."""
        topology = self._routes.topology
        row, link = self._routes.spread(self._number)
        used, index = np.unique(self._round[row] * topology.links + link, return_inverse=True)
        load: Floats = np.bincount(index, self._chunks[row], len(used)).astype(np.float64)
        low, high = np.full(len(used), np.iinfo(np.int64).max), np.full(len(used), -1)
        port = self._ports.run[row]
        np.minimum.at(low, index, port)
        np.maximum.at(high, index, port)
        meet = (low < high)[index]
        most = np.zeros(len(self._number))
        rounds, links = np.divmod(used, topology.links)
        full = load / topology.bandwidth_Bps[links]
        np.maximum.at(most, row[meet], full[index[meet]])
        return most, rounds, links, load

    def _hops(self, queued: Bools) -> list[list[Hop]]:
        """The links beyond the port of the queued messages: the second of each route, then the third, and so on, each
        by round."""
        routes = self._routes
        first, last = routes.first[self._number], routes.first[self._number + 1]
        hops = []
        for k in range(1, int((last - first)[queued].max(initial=0))):
            row = np.flatnonzero(queued & (first + k < last))
            link = routes.link[first[row] + k]
            lasts_s = self._chunks[row] / routes.topology.bandwidth_Bps[link]
            lasts, edges = LinearCost(np.zeros(len(row)), lasts_s), self._edges(self._round[row])
            begin = self._edges(self._round)[:-1]
            parts = [slice(*edges[at : at + 2]) for at in range(self._count)]
            hops.append([Hop(row[p] - low, link[p], lasts.of(p)) for p, low in zip(parts, begin, strict=True)])
        return hops

    def _handed(self, before: Ints) -> LinearCost:
        """A message each, and a copy of each range that is not ready; one copy serves all its receivers."""
        topology, rows = self._routes.topology, self._rows
        order = np.lexsort((self._away, self._senders.run))
        at = self._away[order]
        copies = np.zeros(len(at), np.bool_)
        if topology.step_s or topology.copy_Bps < np.inf:
            wrote = (self._nth + 1, *_ranges(rows.target, rows.target_buffer, rows.target_chunk, rows.count))
            sends = _ranges(*(c[at] for c in (rows.source, rows.source_buffer, rows.source_chunk, rows.count)))
            ready = (np.zeros(len(before), np.int64), *before.T), wrote
            columns = [np.concatenate(c) for c in zip(*ready, (self._nth[at], *sends), strict=True)]
            number = numbered(*columns)
            known, asked = number[: len(number) - len(at)], number[len(number) - len(at) :]
            is_ready = np.zeros(int(number.max(initial=-1)) + 1, np.bool_)
            is_ready[known] = True
            opens = np.zeros(len(at), np.bool_)
            opens[np.unique(asked, return_index=True)[1]] = True
            copies = opens & ~is_ready[asked]
        fixed_s: Floats = self._routes.work_s[self._number[order]] + topology.step_s * copies.astype(np.float64)
        copied = np.where(copies, rows.count[at], 0).astype(np.float64)
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        runs = self._senders  # of the same lengths in this order
        return LinearCost(runs.upto(fixed_s)[back], runs.upto(copied * (1 / topology.copy_Bps))[back])

    def _received(self) -> tuple[Ints, Ints, Ints, LinearCost]:
        """(round, receiver, its message's position or -1, its work from there on). The contributions of several
        messages to one range are added when the last one has arrived."""
        topology, rows = self._routes.topology, self._rows
        message = np.full(len(rows), -1)
        message[self._away] = np.arange(len(self._away))
        order = np.lexsort((rows.target, self._nth))
        nth, target, message = self._nth[order], rows.target[order].astype(np.int64), message[order]
        count, reduce = rows.count[order], rows.reduce[order]
        per_byte_s = np.where(reduce, count / topology.reduce_Bps, count / topology.copy_Bps)
        fixed_s = np.zeros(len(message))
        fixed_s[message >= 0] = self._routes.work_s[self._number[message[message >= 0]]]
        if topology.step_s or np.any(per_byte_s):
            ranges = _ranges(target, rows.target_buffer[order], rows.target_chunk[order], count)
            number = numbered(nth, *ranges)
            last = np.zeros(int(number.max(initial=-1)) + 1, np.int64)
            np.maximum.at(last, number, np.arange(len(number)))
            work_s = np.bincount(last[number], per_byte_s, len(number))
            per_byte_s, fixed_s = work_s, fixed_s + topology.step_s * (last[number] == np.arange(len(number)))
        runs = Runs.of((nth * (len(topology.nodes) + 1) + target)[::-1])
        return nth, target, message, LinearCost(runs.upto(fixed_s[::-1])[::-1], runs.upto(per_byte_s[::-1])[::-1])


def numbered(*columns: Ints) -> Ints:
    """A number for each row, the same for equal rows. Columns are not negative."""
    key, room = np.zeros(len(columns[0]), np.int64), 1
    for column in columns:
        width = int(column.max(initial=0)) + 1
        if room * width > MOST_KEY:
            key, column = _ranked(key), _ranked(column)
            room, width = (int(each.max(initial=0)) + 1 for each in (key, column))
        key = key * width + column
        room *= width
    return _ranked(key)


def _ranked(values: Ints) -> Ints:
    """The rank of each value among the different ones."""
    return np.unique(values, return_inverse=True)[1].reshape(-1)


def _ranges(*columns: NDArray[np.integer]) -> tuple[Ints, ...]:
    return tuple(c.astype(np.int64) for c in columns)
