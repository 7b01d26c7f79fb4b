"""Messages on their way: ports, and flows that share links fairly.

A port is where a rank's messages of one job enter a link. They leave it one after the other; the first of them is a
flow, which takes all links of its route at once, at one rate. Rates are max-min fair, and found anew only for the flows
that a beginning or an end can have touched: those joined to it by links that cannot give all flows what each would take
alone. Messages are known by number, and their times are seconds.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from math import inf

import numpy as np
from numpy.typing import NDArray

from ringtree.simulate.fairness import max_min
from ringtree.topology import Topology

INSTANT = 1 + 1e-12
"""Times that differ by less are one instant: rates are found once for all that begins and ends in it."""
NOWHERE = -1
"""The port of lanes without a route."""


class Network:
    """`lanes`: (source rank, target rank, job); `lane` and `nbytes` say of each message which it takes and how long it
    is, `stretch` by what the latency of its way is multiplied."""

    def __init__(
        self,
        topology: Topology,
        lanes: Sequence[tuple[int, int, int]],
        lane: NDArray[np.int64],
        nbytes: NDArray[np.int64],
        stretch: NDArray[np.float64],
    ) -> None:
        self.lane, self.nbytes = array("q", lane.tobytes()), array("q", nbytes.tobytes())
        self.bandwidth: list[float] = topology.bandwidth_Bps.tolist()
        self.routes, self.port, ports = list[tuple[int, ...]](), list[int](), dict[tuple[int, int, int], int]()
        for source, target, job in lanes:
            try:
                route = topology.route(source, target)
            except ValueError:
                self.routes.append(())
                self.port.append(NOWHERE)
                continue
            self.routes.append(route)
            self.port.append(ports.setdefault((source, job, route[0] if route else -1), len(ports)))
        self.most = [min((self.bandwidth[link] for link in route), default=inf) for route in self.routes]
        by_lane = np.array([topology.latency_s[list(route)].sum() for route in self.routes])
        self.latency_s = array("d", (by_lane[lane] * stretch).tobytes() if lanes else b"")
        self.lost: list[int] = []  # messages that have no route
        self.busy_s = np.zeros(topology.links)
        self._heap: list[tuple[float, int, int]] = []  # time, tie, message that is handed over or ~port
        self._ties = 0
        self._queue = [deque[int]() for _ in ports]  # the first one is the flow
        self._due = [0] * len(ports)  # the tie of the flow's end in the heap
        self._rate, self._left, self._since = ([0.0] * len(ports) for _ in range(3))  # bytes left at that time
        self._flows: dict[int, dict[int, None]] = {}  # link -> ports of the flows on it
        self._busy_since: dict[int, float] = {}
        self._tight = set[int]()  # links that cannot give all their flows what each would take alone
        self._begun, self._eased = list[int](), list[int]()  # ports and links that change the rates of others

    def hand_over(self, message: int, at_s: float) -> None:
        """The message is given to its port, now or later."""
        self._ties += 1
        heappush(self._heap, (at_s, self._ties, message))

    def arrivals(self) -> Iterator[tuple[int, float]]:
        """(message, when it arrives), as soon as that is known; whoever asks may hand over more in between. Ends when
        nothing is under way."""
        heap, lane, port_of, queues, due = self._heap, self.lane, self.port, self._queue, self._due
        while heap:
            now, tie, what = heappop(heap)
            if what >= 0:
                port = port_of[lane[what]]
                if port < 0:
                    self.lost.append(what)
                else:
                    queues[port].append(what)
                    if len(queues[port]) == 1:
                        yield from self._begin(port, now)
            elif due[~what] == tie:
                yield from self._end(~what, now)
            if (self._begun or self._eased) and not (heap and heap[0][0] <= now * INSTANT):
                self._settle(now)

    def carried_nbytes(self, messages: NDArray[np.intp]) -> NDArray[np.int64]:
        """Bytes that crossed each link, when these messages have arrived."""
        lane, nbytes = (np.frombuffer(column, np.int64)[messages] for column in (self.lane, self.nbytes))
        by_lane = np.zeros(len(self.routes), np.int64)
        np.add.at(by_lane, lane, nbytes)
        total = np.zeros(len(self.bandwidth), np.int64)
        for route, amount in zip(self.routes, by_lane.tolist(), strict=True):
            for link in route:
                total[link] += amount
        return total

    def _begin(self, port: int, now: float) -> Iterator[tuple[int, float]]:
        """The first message of the port becomes a flow; those without bytes only pass."""
        queue, nbytes = self._queue[port], self.nbytes
        while queue:
            message = queue[0]
            lane = self.lane[message]
            if nbytes[message] and self.routes[lane]:
                break
            queue.popleft()
            yield message, now + self.latency_s[message]
        else:
            return
        alone = True
        for link in self.routes[lane]:
            flows = self._flows.get(link)
            if flows:
                alone = False
                flows[port] = None
            else:
                self._flows[link] = {port: None}
                self._busy_since[link] = now
        self._left[port], self._since[port] = nbytes[message], now
        if alone:
            self._set_rate(port, self.most[lane], now)
        else:
            self._rate[port], self._due[port] = 0.0, 0
            self._begun.append(port)

    def _end(self, port: int, now: float) -> Iterator[tuple[int, float]]:
        """The flow's last byte has left; the next message goes on, at its rate where it takes the same way."""
        queue = self._queue[port]
        message = queue.popleft()
        lane = self.lane[message]
        if queue and self.lane[queue[0]] == lane and self.nbytes[queue[0]]:
            self._left[port], self._since[port] = self.nbytes[queue[0]], now
            self._set_rate(port, self._rate[port], now)
            yield message, now + self.latency_s[message]
            return
        for link in self.routes[lane]:
            flows = self._flows[link]
            del flows[port]
            if not flows:
                self.busy_s[link] += now - self._busy_since[link]
                self._tight.discard(link)
            elif link in self._tight:
                self._eased.append(link)
        yield message, now + self.latency_s[message]
        if queue:
            yield from self._begin(port, now)

    def _set_rate(self, port: int, rate: float, now: float) -> None:
        """From now on; what the flow has left is known as of now."""
        self._rate[port] = rate
        self._ties += 1
        self._due[port] = self._ties
        heappush(self._heap, (now + self._left[port] / rate, self._ties, ~port))

    def _settle(self, now: float) -> None:
        """Finds the rates anew of all flows that may have changed."""
        flows, links = self._touched()
        place = {link: i for i, link in enumerate(links)}
        ways = [[place[k] for k in self._way(port) if k in place] for port in flows]
        most = [self.most[self.lane[self._queue[port][0]]] for port in flows]
        rates = max_min(ways, most, [self.bandwidth[link] for link in links])
        for port, rate in zip(flows, rates, strict=True):
            old = self._rate[port]
            if abs(rate - old) > 1e-12 * rate:
                self._left[port] = max(self._left[port] - old * (now - self._since[port]), 0.0)
                self._since[port] = now
                self._set_rate(port, rate, now)

    def _touched(self) -> tuple[list[int], list[int]]:
        """The flows joined to those that began, or to links that were eased, and the tight links that join them."""
        found = dict.fromkeys(self._begun)
        for link in self._eased:
            found.update(self._flows[link])
        self._begun, self._eased = [], []
        flows, looked, links = list(found), set[int](), list[int]()
        for port in flows:  # grows
            for link in self._way(port):
                if link in looked:
                    continue
                looked.add(link)
                on, bandwidth = self._flows[link], self.bandwidth[link]
                if len(on) > 1 and sum(self.most[self.lane[self._queue[p][0]]] for p in on) > bandwidth * INSTANT:
                    self._tight.add(link)
                    links.append(link)
                    flows += [p for p in on if p not in found]
                    found.update(on)
                else:
                    self._tight.discard(link)
        return flows, links

    def _way(self, port: int) -> tuple[int, ...]:
        """The route of the port's flow."""
        return self.routes[self.lane[self._queue[port][0]]]
