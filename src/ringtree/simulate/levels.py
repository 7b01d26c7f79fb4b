"""The vectorised player: all ranks advance together, as far as they can, one kind of instruction at a time.

Every message is assumed to leave at full rate. Then its times depend on its sender alone, and a sweep over all ranks
costs a few numpy calls for any number of ranks. Afterwards the load of every link is checked. If no link was
overloaded, and none had two messages at a time that wait in queues, the times are those of the event player; otherwise
there is no result.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ringtree.ir.host_clocks import hosts_fact
from ringtree.ir.program import Kind
from ringtree.ir.trace import Event, Trace
from ringtree.simulate.code import Code
from ringtree.simulate.conditions import Conditions
from ringtree.simulate.lane_routes import PairRoutes
from ringtree.simulate.simulation import Job, Simulation
from ringtree.simulate.steps import busy_s
from ringtree.topology import Topology
from ringtree.topology.queues import in_queues

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
END = len(Kind)
"""The kind after a rank's last instruction."""
TOLERANCE = 1e-12
"""The share of the makespan by which two flows may overlap and still count as consecutive."""
SPARE = 1e-6
"""The relative excess over a link's bandwidth that counts as rounding."""
EVENT = np.array([Event.COPY, Event.REDUCE, Event.SEND, Event.WAIT], dtype=np.int32)
"""Events by the kind of instruction."""


def play(job: Job, code: Code, topology: Topology, conditions: Conditions) -> Simulation | None:
    """The event player's result for one job with that code; None where the event player itself is needed: messages meet
    on a link, have jitter, or never arrive. Slots are unlimited."""
    if conditions.jitter:
        return None
    links = conditions.applied(topology)
    rank, sends = code.rank, code.signal
    lane = rank[sends] * np.int64(topology.ranks) + code.peer[sends]
    pair = lane[np.diff(lane, prepend=-1) != 0]
    nth = np.cumsum(np.diff(lane, prepend=-1) != 0) - 1
    routes = PairRoutes.of(links, pair // topology.ranks, pair % topology.ranks)
    if routes.lost.any():
        return None
    begin_s = np.full(len(code.first) - 1, job.start_s, dtype=np.float64)
    for late, delay_s in conditions.delay_s.items():
        if late < len(begin_s):
            begin_s[late] += delay_s
    flow_s, latency_s = np.zeros(len(rank)), np.zeros(len(rank))
    flow_s[sends], latency_s[sends] = code.nbytes[sends] / routes.bandwidth_Bps[nth], routes.latency_s[nth]
    port = np.zeros(len(rank), dtype=np.int64)
    port[sends] = routes.entry[nth]
    sweep = _Sweep(code, begin_s, busy_s(code, topology, conditions), flow_s, latency_s, port)
    if not sweep.run():
        return None
    end_s = max(float(sweep.end.max(initial=0)), float(sweep.clock.max(initial=job.start_s)))
    queued = in_queues(links, pair // topology.ranks, pair % topology.ranks, routes.first, routes.link)
    if np.any(routes.bandwidth_Bps[queued] != routes.bandwidth_Bps[queued][:1]):
        return None  # of a rank's messages, a slow one lets the next pass
    delayed = queued[nth] & (sweep.leave[sends] > sweep.start[sends])
    if np.any(delayed & (code.nbytes[sends] == 0)) or _passed(routes, queued, nth[delayed], links):
        return None
    message, link = routes.spread(nth)
    leave_s = sweep.leave[sends][message]
    left_s = leave_s + flow_s[sends][message]
    meet = _shared(link, port[sends][message], links.links) & (left_s - leave_s > TOLERANCE * end_s)
    waits, lasts_s, rate_Bps = queued[nth][message], left_s - leave_s, routes.bandwidth_Bps[nth][message]
    rate_Bps[waits] = links.bandwidth_Bps[link[waits]]
    lasts_s[waits] = code.nbytes[sends][message[waits]] / rate_Bps[waits]
    if not _have_room(link[meet], leave_s[meet], left_s[meet] - TOLERANCE * end_s, rate_Bps[meet], links):
        return None
    meet &= ~waits
    alone_s = np.bincount(link[~meet], lasts_s[~meet], links.links)
    return Simulation(
        _trace(job, code, sweep, topology),
        topology,
        alone_s + _busy(link[meet], leave_s[meet], left_s[meet], links.links),
        np.bincount(link, code.nbytes[sends][message], links.links).astype(np.int64),
        end_s - job.start_s,
    )


def _trace(job: Job, code: Code, sweep: _Sweep, topology: Topology) -> Trace:
    zeros = np.zeros(len(code.kind), dtype=np.int32)
    return Trace(
        topology.ranks,
        rank=code.rank,
        channel=zeros,
        call=zeros,
        kind=EVENT[code.kind],
        start_s=sweep.start,
        end_s=sweep.end,
        nbytes=code.nbytes,
        peer=code.peer,
        chunk=code.chunk,
        calls=(job.called,),
        facts={"source": "simulated", "name": job.called, "topology": topology.name}
        | hosts_fact(topology.hosts.tolist()),
    )


def _passed(routes: PairRoutes, queued: NDArray[np.bool_], delayed: Ints, topology: Topology) -> bool:
    """Whether messages that wait at their port, of these pairs, may be on their way before the ones ahead have left:
    where the pairs of the port are not all held up by one link, or meet those of other ports before it."""
    if not len(delayed):
        return False
    pair, link = routes.spread(np.arange(len(routes.entry)))
    narrow = topology.bandwidth_Bps[link] == routes.bandwidth_Bps[pair]
    upto = np.cumsum(narrow) - narrow
    ahead = upto == upto[routes.first[pair]]  # the links before the narrowest one, and that one
    held = np.full(len(routes.entry), -1)
    held[pair[ahead & narrow]] = link[ahead & narrow]
    port = routes.entry[pair]
    waits = np.zeros(topology.links, np.bool_)
    waits[routes.entry[delayed]] = True
    some = np.flatnonzero(queued & (routes.entry >= 0))
    some = some[waits[routes.entry[some]]]
    by_port = np.full(topology.links, -1)
    by_port[routes.entry[some]] = held[some]
    met = _shared(link, port, topology.links) & ahead & ~narrow & waits[port]
    return bool(np.any(by_port[routes.entry[some]] != held[some]) or met.any())


def _shared(link: Ints, port: Ints, links: int) -> NDArray[np.bool_]:
    """Whether each message meets those of another port on its link; messages of one port never overlap."""
    low, high = np.full(links, np.iinfo(np.int64).max), np.full(links, -1)
    np.minimum.at(low, link, port)
    np.maximum.at(high, link, port)
    found: NDArray[np.bool_] = (low < high)[link]
    return found


def _have_room(link: Ints, start_s: Floats, end_s: Floats, rate_Bps: Floats, topology: Topology) -> bool:
    """Whether no link is ever overloaded."""
    links = np.concatenate([link, link])
    change = np.concatenate([rate_Bps, -rate_Bps])
    order = np.lexsort((change, np.concatenate([start_s, end_s]), links))
    asked = np.cumsum(change[order])
    return bool(np.all(asked <= topology.bandwidth_Bps[links[order]] * (1 + SPARE)))


def _busy(link: Ints, start_s: Floats, end_s: Floats, links: int) -> Floats:
    """Seconds in which each link is busy."""
    order = np.lexsort((start_s, link))
    link, start, end = link[order], start_s[order], end_s[order]
    opens = np.diff(link, prepend=-1) != 0
    by_end = np.argsort(end)
    position = np.empty(len(link), dtype=np.int64)
    position[by_end] = np.arange(len(link))
    latest = np.maximum.accumulate(np.cumsum(opens) * len(link) + position) % max(len(link), 1)  # of this link so far
    before = np.where(opens, -np.inf, np.roll(end[by_end[latest]], 1))
    alone = np.maximum(end - np.maximum(start, before), 0)
    total: Floats = np.bincount(link, alone, links).astype(np.float64)
    return total


class _Sweep:
    """The state of all ranks: each one's instruction, its time, and the time since which its ports are free."""

    def __init__(self, code: Code, begin_s: Floats, busy_s: Floats, flow_s: Floats, latency_s: Floats, port: Ints):
        """`begin_s` by rank; the others by instruction: the rank's busy seconds, and for signals the message's
        transfer."""
        self.code, self.busy_s, self.flow_s, self.latency_s, self.port = code, busy_s, flow_s, latency_s, port
        n, lines = len(begin_s), len(code.kind)
        self.kind = np.append(np.where(code.kind <= Kind.REDUCE, Kind.COPY, code.kind), END).astype(np.int8)
        self.at, self.last = code.first[:-1].copy(), code.first[1:]
        self.clock = begin_s.copy()
        self.free = np.zeros(int(port.max(initial=-1)) + 1)
        self.start, self.end, self.leave = (np.zeros(lines) for _ in range(3))
        self.arrival = np.full(lines, np.nan)
        self.taker = np.full(lines, -1, dtype=np.int64)
        self.taker[code.signal] = code.wait
        self.rank = code.rank
        self.active = np.arange(n)
        self.running = np.ones(n, dtype=np.bool_)

    def run(self) -> bool:
        """Whether all ranks finished."""
        while len(self.active):
            self._wait()
            self._work()
            self._signal()
        return bool(np.all(self.at == self.last))

    def _now(self) -> tuple[Ints, Ints, NDArray[np.int8]]:
        """The active ranks, their instructions and the instructions' kinds; finished ranks become inactive."""
        at = self.at[self.active]
        over = at == self.last[self.active]
        if over.any():
            self.running[self.active[over]] = False
            self.active, at = self.active[~over], at[~over]
        return self.active, at, self.kind[at]

    def _wait(self) -> None:
        ranks, at, kind = self._now()
        waiting = kind == Kind.WAIT
        if not waiting.any():
            return
        stuck = waiting & np.isnan(self.arrival[at])
        if stuck.any():
            self.running[ranks[stuck]] = False
            self.active = ranks[~stuck]
            waiting &= ~stuck
        ranks, at = ranks[waiting], at[waiting]
        self.start[at] = now = self.clock[ranks]
        self.end[at] = self.clock[ranks] = np.maximum(now, self.arrival[at]) + self.busy_s[at]
        self.at[ranks] += 1

    def _work(self) -> None:
        ranks, at, kind = self._now()
        working = kind == Kind.COPY
        while working.any():
            ranks, at = ranks[working], at[working]
            self.start[at] = now = self.clock[ranks]
            self.end[at] = self.clock[ranks] = now + self.busy_s[at]
            self.at[ranks] = at = at + 1
            working = (self.kind[at] == Kind.COPY) & (at < self.last[ranks])

    def _signal(self) -> None:
        ranks, at, kind = self._now()
        signalling = kind == Kind.SIGNAL
        while signalling.any():
            ranks, at = ranks[signalling], at[signalling]
            port, taker = self.port[at], self.taker[at]
            self.start[at] = now = self.clock[ranks] + self.busy_s[at]
            self.clock[ranks] = now
            self.leave[at] = leave = np.maximum(now, self.free[port])
            self.free[port] = left = leave + self.flow_s[at]
            self.end[at] = self.arrival[taker] = left + self.latency_s[at]
            self.at[ranks] = at = at + 1
            to = self.rank[taker]
            woken = to[(self.at[to] == taker) & ~self.running[to]]
            if len(woken):
                self.running[woken] = True
                self.active = np.concatenate([self.active, woken])
            signalling = (self.kind[at] == Kind.SIGNAL) & (at < self.last[ranks])
