"""The events of a run: the one record of simulation and of execution, for comparison."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ringtree.ir.ranges import positions


class Event(IntEnum):
    """The kind of a rank's event; `peer` is the other rank.

    COPY, REDUCE: the rank wrote `nbytes`; the peer is the sender of the message that was read, if any.
    SEND: from handing a message over until the peer can see it (measured, on one host) or has the last byte (simulated,
    or to another host).
    WAIT: from wanting the peer's next message until it is there; no time if it was there already.
    STALL: a sender waits for room (a staging slot, an entry of the lane) that the peer has to return.
    COMPUTE: the program's own work, under its name; the rank's other activities at that time have their own events.
    """

    COPY = 0
    REDUCE = 1
    SEND = 2
    WAIT = 3
    STALL = 4
    COMPUTE = 5


COLUMNS: dict[str, type[np.generic]] = {
    "rank": np.int32,
    "channel": np.int32,
    "call": np.int32,
    "kind": np.int32,
    "start_s": np.float64,
    "end_s": np.float64,
    "nbytes": np.int64,
    "peer": np.int32,
    "chunk": np.int32,
}


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """Columns of events, one row each, in no promised order. Times are seconds from one zero for all ranks.

    `peer` is -1 where there is none, `chunk` the position on the whole vector (-1: several or none), `call` the
    position in `calls` of the event's call, such as "all_reduce(float32, sum, count 8)". `facts`: properties of the
    run, such as name, machine, topology; "source" is simulated or measured.

    Messages of one channel arrive in the order they were sent: the k-th SEND from one rank to another is taken
    by the k-th WAIT there.
    """

    ranks: int
    rank: NDArray[np.int32]
    channel: NDArray[np.int32]
    call: NDArray[np.int32]
    kind: NDArray[np.int32]
    start_s: NDArray[np.float64]
    end_s: NDArray[np.float64]
    nbytes: NDArray[np.int64]
    peer: NDArray[np.int32]
    chunk: NDArray[np.int32]
    calls: tuple[str, ...] = ("",)
    facts: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def of(
        ranks: int,
        rank: ArrayLike,
        kind: ArrayLike,
        start_s: ArrayLike,
        end_s: ArrayLike,
        *,
        nbytes: ArrayLike = 0,
        peer: ArrayLike = -1,
        chunk: ArrayLike = -1,
        channel: ArrayLike = 0,
        call: ArrayLike = 0,
        calls: Iterable[str] = ("",),
        facts: Mapping[str, str] | None = None,
    ) -> Trace:
        """Events from columns or scalars, broadcast together. ValueError at the first impossible event."""
        given = dict(zip(COLUMNS, (rank, channel, call, kind, start_s, end_s, nbytes, peer, chunk), strict=True))
        spread = np.broadcast_arrays(*map(np.atleast_1d, given.values()))
        columns = {name: np.array(c, dtype=t) for c, (name, t) in zip(spread, COLUMNS.items(), strict=True)}
        trace = Trace(ranks, **columns, calls=tuple(calls), facts=dict(facts or {}))
        trace._check()
        return trace

    @staticmethod
    def concatenate(traces: Iterable[Trace]) -> Trace:
        """The events of all, and their calls one after another; the facts are those of the first. They must have
        the same number of ranks."""
        parts = list(traces)
        if not parts:
            return Trace.of(0, [], [], [], [])
        ranks = {t.ranks for t in parts}
        if len(ranks) > 1:
            raise ValueError(f"traces of {sorted(ranks)} ranks cannot be joined; expected one number of ranks")
        columns: dict[str, Any] = {name: np.concatenate([getattr(t, name) for t in parts]) for name in COLUMNS}
        before = np.cumsum([0, *(len(t.calls) for t in parts[:-1])])
        columns["call"] = np.concatenate([t.call + b for t, b in zip(parts, before, strict=True)]).astype(np.int32)
        return replace(parts[0], **columns, calls=tuple(name for t in parts for name in t.calls))

    def __len__(self) -> int:
        return len(self.rank)

    def take(self, index: NDArray[np.intp] | NDArray[np.bool_] | slice) -> Trace:
        """The events at `index`, in that order."""
        return replace(self, **{name: getattr(self, name)[index] for name in COLUMNS})

    @property
    def makespan_s(self) -> float:
        """Seconds from the start of the first event to the end of the last."""
        return float(self.end_s.max() - self.start_s.min()) if len(self) else 0.0

    def messages(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The messages as positions of their (SEND, WAIT) events; a message that lacks one of them is left out."""
        sends, waits = (np.flatnonzero(self.kind == kind) for kind in (Event.SEND, Event.WAIT))
        channels = int(self.channel.max(initial=0)) + 1
        ends = []
        for index, source, target in ((sends, self.rank, self.peer), (waits, self.peer, self.rank)):
            lane = (source[index].astype(np.int64) * self.ranks + target[index]) * channels + self.channel[index]
            order = np.lexsort((self.start_s[index], lane))
            index, lane = index[order], lane[order]
            first = np.flatnonzero(np.diff(lane, prepend=-1))
            nth = positions(np.diff(first, append=len(lane)))
            ends.append((index, lane * len(self) + nth))
        (sent, sent_key), (taken, taken_key) = ends
        _, a, b = np.intersect1d(sent_key, taken_key, assume_unique=True, return_indices=True)
        return sent[a], taken[b]

    def traffic_nbytes(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """([ranks], [ranks]): bytes that each rank sent, and that were sent to it."""
        sends = self.kind == Event.SEND
        sent, received = np.zeros((2, self.ranks), dtype=np.int64)
        np.add.at(sent, self.rank[sends], self.nbytes[sends])
        np.add.at(received, self.peer[sends], self.nbytes[sends])
        return sent, received

    def sent_nbytes(self) -> NDArray[np.int64]:
        """[ranks, ranks]: bytes sent from each rank (row) to each (column)."""
        total = np.zeros((self.ranks, self.ranks), dtype=np.int64)
        sends = self.kind == Event.SEND
        np.add.at(total, (self.rank[sends], self.peer[sends]), self.nbytes[sends])
        return total

    def sent_of_pairs(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """([pairs], [pairs]): the pairs of ranks that have messages, each as sender * ranks + receiver, ascending, and
        their bytes: as `sent_nbytes`, of any number of ranks."""
        sends = self.kind == Event.SEND
        pairs, of = np.unique(self.rank[sends].astype(np.int64) * self.ranks + self.peer[sends], return_inverse=True)
        total = np.zeros(len(pairs), dtype=np.int64)
        np.add.at(total, of, self.nbytes[sends])
        return pairs, total

    def kind_seconds(self) -> NDArray[np.float64]:
        """[ranks, kinds of Event]: seconds of each rank in each kind; simultaneous messages count each, and a COMPUTE
        counts whole, also while the rank had other events (see ir.own_work)."""
        total = np.zeros((self.ranks, len(Event)))
        np.add.at(total, (self.rank, self.kind), self.end_s - self.start_s)
        return total

    def _check(self) -> None:
        pairs = (self.kind == Event.SEND) | (self.kind == Event.WAIT)
        rules = (
            ((self.rank < 0) | (self.rank >= self.ranks), f"expected a rank of 0..{self.ranks - 1}"),
            ((self.call < 0) | (self.call >= len(self.calls)), f"expected a call of 0..{len(self.calls) - 1}"),
            ((self.kind < 0) | (self.kind >= len(Event)), "expected a kind of Event"),
            (~(self.end_s >= self.start_s), "expected its end after its start"),
            (~np.isfinite(self.end_s - self.start_s), "expected a finite start and end"),
            (self.nbytes < 0, "expected no negative bytes"),
            (pairs & ((self.peer < 0) | (self.peer >= self.ranks)), f"expected a peer of 0..{self.ranks - 1}"),
        )
        for bad, expected in rules:
            if np.any(bad):
                i = int(np.flatnonzero(bad)[0])
                row = ", ".join(f"{name} {getattr(self, name)[i]}" for name in COLUMNS)
                raise ValueError(f"event {i} ({row}): {expected}")
