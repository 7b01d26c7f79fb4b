"""Messages on their way: ports, and flows that share links fairly.

A port is where a rank's messages of one job enter a link. They leave it one after the other; the first of them is a
flow, which takes all links of its route at once, at one rate. Rates are max-min fair, and recomputed only for the flows
that a start or an end can affect: those connected to it by tight links, which cannot give every flow its rate alone.

Where a topology has it so (`fifo_between_hosts`), messages from host to host are no flows, nor are those that share a
link with them. They pass the links of their route one by one, and each link serves them in the order in which they
reach it: the first bytes of a message reach the next link when the one before begins with them.
Messages are identified by number; times are in seconds.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterator
from heapq import heappop, heappush
from math import inf

import numpy as np
from numpy.typing import NDArray

from ringtree.simulate.fairness import MANY, few, many
from ringtree.simulate.lane_routes import NONE, Ints, LaneRoutes

INSTANT = 1 + 1e-12
"""Times that differ by less are one instant: rates are computed once for all starts and ends in it."""
SAME = 1e-12
"""Rates that differ by less, in proportion, are the same."""


class SimulatedNetwork:
    """`lanes`: the routes of the lanes. `lane` and `nbytes`: each message's lane and length, `stretch`: the factor on
    its route's latency. `most_Bps`: the most that one flow has of any link."""

    def __init__(
        self,
        lanes: LaneRoutes,
        lane: Ints,
        nbytes: Ints,
        stretch: NDArray[np.float64],
        most_Bps: float = inf,
    ) -> None:
        self.lane, self.nbytes = array("q", lane.tobytes()), array("q", nbytes.tobytes())
        self.lost: list[int] = []  # messages that have no route
        self.until_s = inf  # events after this time stay
        self.lanes = lanes
        latency_s = lanes.routes.latency_s[lane] * stretch if len(lanes.port) else np.zeros(0)
        self.latency_s = array("d", latency_s.tobytes())
        self._links, self._bandwidth = self.lanes.links, self.lanes.bandwidth.tolist()
        self._alone_Bps = np.minimum(self.lanes.routes.bandwidth_Bps, most_Bps)  # the rate of a lane's flow alone
        self._most = self._alone_Bps.tolist()
        self._heap: list[tuple[float, int, int]] = []  # time, tie, message that is handed over or ~port
        self._ties = 0
        ports, links = self.lanes.ports, len(self.lanes.used)
        self._queue = [deque[int]() for _ in range(ports)]  # the first one is the flow
        self._flow = array("q", [NONE]) * ports  # the lane that the port's flow takes
        self._due = [0] * ports  # the tie of the flow's end in the heap
        self._rate, self._left, self._since = (array("d", bytes(8 * ports)) for _ in range(3))  # left at that time
        self._flows = [dict[int, None]() for _ in range(links)]  # the ports whose flows are on the link
        self._busy_s, self._busy_since = [0.0] * links, [0.0] * links
        self._tight = bytearray(links)  # whether the link cannot give each of its flows the rate it would have alone
        self._begun, self._eased = list[int](), list[int]()  # ports and links that change the rates of others
        self._queued = lanes.queued
        self._free_s = [0.0] * links  # when each link has served the messages in its queue
        self._passing: dict[int, tuple[int, float]] = {}  # message -> links reached, seconds of its last byte's leaving

    def busy_s(self, links: int) -> NDArray[np.float64]:
        """Seconds in which each of the topology's links was busy, [links]."""
        total = np.zeros(links)
        total[self.lanes.used] = self._busy_s
        return total

    def carried_nbytes(self, links: int) -> Ints:
        """Bytes that cross each of the topology's links in all, [links]."""
        lane, nbytes = (np.frombuffer(column, np.int64) for column in (self.lane, self.nbytes))
        by_lane = np.zeros(len(self._links), np.int64)
        np.add.at(by_lane, lane[lane != NONE], nbytes[lane != NONE])
        total = np.zeros(links, np.int64)
        np.add.at(total, self.lanes.used[self.lanes.routes.link], np.repeat(by_lane, np.diff(self.lanes.routes.first)))
        return total

    def hand_over(self, message: int, at_s: float) -> None:
        """Hands the message to its port, now or later."""
        self._ties += 1
        heappush(self._heap, (at_s, self._ties, message))

    def arrivals(self) -> Iterator[tuple[int, float]]:
        """Yields (message, arrival in seconds) in order; the caller may hand over further messages in between. Ends
        when no message is under way, or at `until_s`, which the caller may set in between as well."""
        heap, lane, port_of, queues, due = self._heap, self.lane, self.lanes.port, self._queue, self._due
        while heap and heap[0][0] <= self.until_s:
            now, tie, what = heappop(heap)
            if what >= 0:
                port = port_of[lane[what]]
                if port >= 0 and self._queued[lane[what]] and self.nbytes[what]:
                    yield from self._reach(what, now)
                elif port < 0:
                    self.lost.append(what)
                else:
                    queues[port].append(what)
                    if len(queues[port]) == 1:
                        yield from self._begin(port, now)
            elif due[~what] == tie:
                yield from self._end(~what, now)
            if (self._begun or self._eased) and not (heap and heap[0][0] <= now * INSTANT):
                self._settle(now)

    def _reach(self, message: int, now: float) -> Iterator[tuple[int, float]]:
        """The message reaches the next link of its route, which serves it after those that came before."""
        hop, left_s = self._passing.get(message, (0, 0.0))
        links = self._links[self.lane[message]]
        link = links[hop]
        begin_s, lasts_s = max(now, self._free_s[link]), self.nbytes[message] / self._bandwidth[link]
        self._free_s[link] = begin_s + lasts_s
        self._busy_s[link] += lasts_s
        left_s = max(left_s, begin_s + lasts_s)
        if hop + 1 < len(links):
            self._passing[message] = hop + 1, left_s
            self.hand_over(message, begin_s)
        else:
            self._passing.pop(message, None)
            yield message, left_s + self.latency_s[message]

    def _begin(self, port: int, now: float) -> Iterator[tuple[int, float]]:
        """The first message of the port becomes a flow; those without bytes only pass."""
        queue, nbytes = self._queue[port], self.nbytes
        while queue:
            message = queue[0]
            lane = self.lane[message]
            if nbytes[message] and self._links[lane]:
                break
            queue.popleft()
            yield message, now + self.latency_s[message]
        else:
            return
        alone = True
        for link in self._links[lane]:
            flows = self._flows[link]
            if flows:
                alone = False
            else:
                self._busy_since[link] = now
            flows[port] = None
        self._flow[port], self._left[port], self._since[port] = lane, nbytes[message], now
        if alone:
            self._set_rate(port, self._most[lane], now)
        else:
            self._rate[port], self._due[port] = 0.0, 0
            self._begun.append(port)

    def _end(self, port: int, now: float) -> Iterator[tuple[int, float]]:
        """Ends a flow whose last byte has left; the next message starts, at the flow's rate where it takes the same
        route."""
        queue = self._queue[port]
        message = queue.popleft()
        lane = self.lane[message]
        if queue and self.lane[queue[0]] == lane and self.nbytes[queue[0]]:
            self._left[port], self._since[port] = self.nbytes[queue[0]], now
            self._set_rate(port, self._rate[port], now)
            yield message, now + self.latency_s[message]
            return
        for link in self._links[lane]:
            flows = self._flows[link]
            del flows[port]
            if not flows:
                self._busy_s[link] += now - self._busy_since[link]
                self._tight[link] = False
            elif self._tight[link]:
                self._eased.append(link)
        self._flow[port] = NONE
        yield message, now + self.latency_s[message]
        if queue:
            yield from self._begin(port, now)

    def _set_rate(self, port: int, rate: float, now: float) -> None:
        """Sets a flow's rate from now on, and its remaining bytes as of now."""
        self._rate[port] = rate
        self._ties += 1
        self._due[port] = self._ties
        heappush(self._heap, (now + self._left[port] / rate, self._ties, ~port))

    def _settle(self, now: float) -> None:
        """Recomputes the rates of all flows that may have changed; where they are many, of all flows."""
        found = self._touched()
        self._begun, self._eased = [], []
        if found is None:
            self._settle_all(now)
            return
        flows, links = found
        position = {link: i for i, link in enumerate(links)}
        crossed = [[position[k] for k in self._links[self._flow[port]] if k in position] for port in flows]
        most = [self._most[self._flow[port]] for port in flows]
        for port, rate in zip(flows, few(crossed, most, [self._bandwidth[k] for k in links]), strict=True):
            old = self._rate[port]
            if not old * (1 - SAME) <= rate <= old * (1 + SAME):
                self._left[port] = max(self._left[port] - old * (now - self._since[port]), 0.0)
                self._since[port] = now
                self._set_rate(port, rate, now)

    def _touched(self) -> tuple[list[int], list[int]] | None:
        """The flows connected to started ones or to eased links, and the tight links that connect them; None for too
        many."""
        found = dict.fromkeys(self._begun)
        for link in self._eased:
            found.update(self._flows[link])
        flows, looked, links = list(found), set[int](), list[int]()
        for port in flows:  # grows
            if len(flows) > MANY:
                return None
            for link in self._links[self._flow[port]]:
                if link in looked:
                    continue
                looked.add(link)
                on = self._flows[link]
                tight = len(on) > 1 and sum(self._most[self._flow[p]] for p in on) > self._bandwidth[link] * INSTANT
                self._tight[link] = tight
                if tight:
                    links.append(link)
                    flows += [p for p in on if p not in found]
                    found.update(on)
        return flows, links

    def _settle_all(self, now: float) -> None:
        lanes, flow = self.lanes, np.frombuffer(self._flow, np.int64)
        rate, left, since = (np.frombuffer(column) for column in (self._rate, self._left, self._since))
        ports = np.flatnonzero(flow != NONE)
        most = self._alone_Bps[flow[ports]]
        at, link = lanes.routes.spread(flow[ports])
        links = len(lanes.used)
        tight = np.bincount(link, most[at], links) > lanes.bandwidth * INSTANT
        tight &= np.bincount(link, minlength=links) > 1
        self._tight[:] = tight.tobytes()
        join = tight[link]
        rates = many(at[join], link[join], most, lanes.bandwidth)
        changed = (rates < rate[ports] * (1 - SAME)) | (rates > rate[ports] * (1 + SAME))
        ports, rates = ports[changed], rates[changed]
        left[ports] = np.maximum(left[ports] - rate[ports] * (now - since[ports]), 0)
        since[ports], rate[ports] = now, rates
        for port, end in zip(ports.tolist(), (now + left[ports] / rates).tolist(), strict=True):
            self._ties += 1
            self._due[port] = self._ties
            heappush(self._heap, (end, self._ties, ~port))
