"""Plays operation graphs: operations start when those that they wait for have ended and their processor is free.

Processors make it an event simulation of its own: which operation is next depends on when messages arrive. The network
is that of programs, and goes no further than the next event here, so that no message is handed over in its past.
"""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush
from math import inf

import numpy as np

from ringtree.ir.host_clocks import hosts_fact
from ringtree.ir.operations import ANY, OperationGraph, OperationKind
from ringtree.ir.trace import Event, Trace
from ringtree.simulate.conditions import Conditions
from ringtree.simulate.lane_routes import LaneRoutes
from ringtree.simulate.matching import Matching
from ringtree.simulate.network import SimulatedNetwork
from ringtree.simulate.play import ALL_IS_WELL
from ringtree.simulate.simulation import Simulation, StuckError
from ringtree.simulate.steps import MARK, NONE, SIGNAL, WAIT, Ints, StepTable, busy_s
from ringtree.topology import Topology

COMPUTE, SEND, RECEIVE, COLLECTIVE = (int(kind) for kind in OperationKind)
READY, ARRIVED, DONE = range(3)
CALLS = ("", "computation")
"""The calls of a trace: of messages, which has the graph's name, and of computations."""


def play_graph(
    graph: OperationGraph, topology: Topology, *, conditions: Conditions = ALL_IS_WELL
) -> tuple[Simulation, int]:
    """The simulation, and the number of messages that no receive took. Messages cost what they cost programs; a
    computation takes its own time.

    The same arguments give the same result, bit for bit. StuckError: if an operation never starts. ValueError: if the
    topology lacks ranks or conditions, or a collective has not been expanded.
    """
    conditions.check(topology)
    if graph.ranks > topology.ranks:
        raise ValueError(
            f"{graph.name} is for {graph.ranks} ranks; expected at most the {topology.ranks} of {topology.name}"
        )
    if graph.count(OperationKind.COLLECTIVE):
        raise ValueError(f"{graph.name} has collectives; expected them expanded")
    actual = conditions.applied(topology)
    player = _Player(graph, _network(graph, actual, conditions), _busy_s(graph, topology, conditions))
    player.play([conditions.delay_s.get(rank, 0.0) for rank in range(graph.ranks)])
    if player.left:
        raise StuckError(_why(player))
    end_s = max(float(player.end_s.max(initial=0.0)), float(player.arrival_s.max(initial=0.0)))
    links = topology.links
    network = player.network
    simulation = Simulation(
        _trace(player, topology), topology, network.busy_s(links), network.carried_nbytes(links), end_s
    )
    return simulation, player.matching.waiting + len(network.lost)


def _network(graph: OperationGraph, topology: Topology, conditions: Conditions) -> SimulatedNetwork:
    """The network, with a lane for each (source, target) that has messages; a rank's own to itself take none."""
    w = graph
    sends = np.flatnonzero((w.kind == SEND) & (w.peer != w.rank))
    pairs, which = np.unique(np.stack([w.rank[sends], w.peer[sends]], axis=1), axis=0, return_inverse=True)
    lane, stretch = np.full(len(w), NONE), np.ones(len(w))
    lane[sends], stretch[sends] = which.reshape(-1), conditions.stretches(len(sends))
    source, target = pairs.T
    routes = LaneRoutes(topology, source, target, np.zeros(len(pairs), np.int64))
    return SimulatedNetwork(routes, lane, w.nbytes, stretch)


def _busy_s(graph: OperationGraph, topology: Topology, conditions: Conditions) -> list[float]:
    """Seconds that each operation keeps its processor busy."""
    w = graph
    zeros = np.zeros(len(w), np.int64)
    kind = np.select([w.kind == SEND, w.kind == RECEIVE], [SIGNAL, WAIT], MARK)
    peer = np.where(w.peer == ANY, w.rank, w.peer)
    messages = StepTable((), w.rank, zeros, zeros, kind, w.nbytes, zeros, peer, zeros, zeros)
    lasts_s = busy_s(messages, topology, conditions)
    slowdown = np.ones(topology.ranks)
    for rank, factor in conditions.slowdown.items():
        slowdown[rank] = factor
    found: list[float] = (lasts_s + w.compute_s * slowdown[w.rank]).tolist()
    return found


class _Player:
    """`left`: operations that have not ended. By operation: `start_s` and `end_s`, UNKNOWN before; of a send, from
    handing over to nothing more, `arrival_s` being its message's. `order`: the operations as they ended."""

    def __init__(self, graph: OperationGraph, network: SimulatedNetwork, lasts_s: list[float]) -> None:
        w = graph
        self.graph, self.network, self.lasts_s = w, network, lasts_s
        self.kind, self.rank, self.peer, self.tag = (c.tolist() for c in (w.kind, w.rank, w.peer, w.tag))
        self.missing = np.bincount(w.after, minlength=len(w)).tolist()
        self.ready_s = [0.0] * len(w)
        by_before = np.argsort(w.before, kind="stable")
        self.first = np.searchsorted(w.before[by_before], np.arange(len(w) + 1)).tolist()
        self.then, self.at_start = w.after[by_before].tolist(), w.at_start[by_before].tolist()
        _, processor = np.unique(np.stack([w.rank, w.processor], axis=1), axis=0, return_inverse=True)
        self.processor = processor.reshape(-1).tolist()
        processors = max(self.processor, default=-1) + 1
        self.queue = [deque[int]() for _ in range(processors)]  # the first one is under way
        self.free_s = [0.0] * processors
        self.start_s, self.end_s, self.arrival_s = (np.full(len(w), -1.0) for _ in range(3))
        self.order: list[int] = []
        receives = w.kind == RECEIVE
        self.matching = Matching(bool(np.any((w.peer[receives] == ANY) | (w.tag[receives] == ANY))))
        self.message = np.full(len(w), NONE)  # that each receive takes
        self._events: list[tuple[float, int, int, int]] = []
        self._ties = 0

    @property
    def left(self) -> int:
        """The number of operations that have not ended."""
        return len(self.kind) - len(self.order)

    def play(self, begin_s: list[float]) -> None:
        """Plays until nothing more happens. `begin_s`: the start of each rank."""
        for operation, missing in enumerate(self.missing):
            self.ready_s[operation] = begin_s[self.rank[operation]]
            if not missing:
                self._push(self.ready_s[operation], READY, operation)
        events, does = self._events, (self._ready, self._arrive, self._done)
        while True:
            self._hear()
            if not events:
                return
            now, _, what, operation = heappop(events)
            does[what](operation, now)

    def _push(self, at_s: float, what: int, operation: int) -> None:
        self._ties += 1
        heappush(self._events, (at_s, self._ties, what, operation))

    def _hear(self) -> None:
        """Lets the network go on until the next event."""
        network, events = self.network, self._events
        network.until_s = events[0][0] if events else inf
        for message, at_s in network.arrivals():
            self._push(at_s, ARRIVED, message)
            network.until_s = events[0][0]

    def _ready(self, operation: int, now: float) -> None:
        if self.kind[operation] != RECEIVE:
            self._enqueue(operation, now)
            return
        self.ready_s[operation] = now
        self._release(operation, now, at_start=True)
        pattern = self.peer[operation], self.rank[operation], self.tag[operation]
        if (message := self.matching.post(operation, pattern)) is not None:
            self._take(operation, message, now)

    def _arrive(self, message: int, now: float) -> None:
        self.arrival_s[message] = now
        pattern = self.rank[message], self.peer[message], self.tag[message]
        if (receive := self.matching.arrive(message, pattern)) is not None:
            self._take(receive, message, now)

    def _take(self, receive: int, message: int, now: float) -> None:
        self.message[receive] = message
        self._enqueue(receive, now)

    def _enqueue(self, operation: int, now: float) -> None:
        queue = self.queue[self.processor[operation]]
        queue.append(operation)
        if len(queue) == 1:
            self._begin(operation, now)

    def _begin(self, operation: int, now: float) -> None:
        if self.kind[operation] == RECEIVE:  # it waited while its processor had nothing else to do
            self.start_s[operation] = max(self.ready_s[operation], self.free_s[self.processor[operation]])
        else:
            self.start_s[operation] = now
            self._release(operation, now, at_start=True)
        self._push(now + self.lasts_s[operation], DONE, operation)

    def _done(self, operation: int, now: float) -> None:
        self.end_s[operation] = now
        self.order.append(operation)
        if self.kind[operation] == SEND:
            if self.peer[operation] == self.rank[operation]:
                self._push(now, ARRIVED, operation)
            else:
                self.network.hand_over(operation, now)
        self._release(operation, now, at_start=False)
        processor = self.processor[operation]
        self.free_s[processor] = now
        queue = self.queue[processor]
        queue.popleft()
        if queue:
            self._begin(queue[0], now)

    def _release(self, operation: int, now: float, at_start: bool) -> None:
        """Counts the operation's start, or end, as done for those that wait for it."""
        for k in range(self.first[operation], self.first[operation + 1]):
            if self.at_start[k] == at_start:
                after = self.then[k]
                self.missing[after] -= 1
                if not self.missing[after]:
                    self._push(now, READY, after)


def _circle(player: _Player) -> list[int]:
    """Operations that each wait for the next one to end, the last for the first; empty where none do."""
    ended = set(player.order)
    needs: dict[int, list[int]] = {}
    then: dict[int, list[int]] = {}
    for before, after in zip(player.graph.before.tolist(), player.graph.after.tolist(), strict=True):
        if before not in ended:
            needs.setdefault(after, []).append(before)
            then.setdefault(before, []).append(after)
    missing = {operation: len(before) for operation, before in needs.items()}
    free = [before for before in then if before not in missing]
    while free:
        for after in then.get(free.pop(), ()):
            missing[after] -= 1
            if not missing[after]:
                free.append(after)
    at = next((operation for operation, left in missing.items() if left), None)
    path: dict[int, int] = {}
    while at is not None and at not in path:
        path[at] = len(path)
        at = next(before for before in needs[at] if missing.get(before))
    return [] if at is None else list(path)[path[at] :]


def _why(player: _Player) -> str:
    """One line: operations that wait for each other, or else a receive whose message never comes."""
    name, network = player.graph.name, player.network
    receives = player.matching.receives()
    if network.lost:
        lost = network.lost[0]
        return f"{name}: rank {player.rank[lost]}'s message to rank {player.peer[lost]} has no route"
    if circle := _circle(player):
        what = f"operations that wait for each other in a circle; {len(circle)} of them"
        what = what if circle[1:] else "an operation that waits for itself"
        return f"{name}: rank {player.rank[circle[0]]} has {what}"
    first = receives[0]
    more = f"; {len(receives) - 1} other receives wait as well" if len(receives) > 1 else ""
    source, tag = ("any" if number == ANY else number for number in (player.peer[first], player.tag[first]))
    message = f"a message of rank {source} with tag {tag}"
    return f"{name}: rank {player.rank[first]} waits for {message}, which never comes{more}"


def _trace(player: _Player, topology: Topology) -> Trace:
    w, order = player.graph, np.array(player.order, dtype=np.int64)
    kind = w.kind[order]
    start_s, end_s = player.start_s[order], player.end_s[order]
    sends = kind == SEND
    start_s[sends], end_s[sends] = end_s[sends], player.arrival_s[order][sends]
    shown = np.where(kind == COMPUTE, end_s > start_s, end_s >= 0)  # not what was lost
    peer, tag, receives = w.peer.copy(), w.tag.copy(), np.flatnonzero(w.kind == RECEIVE)
    peer[receives], tag[receives] = w.rank[player.message[receives]], w.tag[player.message[receives]]
    order, kind, start_s, end_s = order[shown], kind[shown], start_s[shown], end_s[shown]
    event = np.array([Event.COMPUTE, Event.SEND, Event.WAIT])[kind]
    return Trace.of(
        topology.ranks,
        w.rank[order],
        event,
        start_s,
        end_s,
        nbytes=w.nbytes[order],
        peer=peer[order],
        channel=_channels(w, tag)[order],
        call=(kind == COMPUTE).astype(np.int64),
        calls=(w.name, *CALLS[1:]),
        facts={"source": "simulated", "name": w.name, "topology": topology.name} | hosts_fact(topology.hosts.tolist()),
    )


def _channels(graph: OperationGraph, tag: Ints) -> Ints:
    """A channel for each tag of messages; computations have the first."""
    channel = np.zeros(len(graph), np.int64)
    messages = (graph.kind == SEND) | (graph.kind == RECEIVE)
    channel[messages] = np.unique(tag[messages], return_inverse=True)[1].reshape(-1)
    return channel
