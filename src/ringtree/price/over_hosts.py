"""The time of a schedule over hosts: on the links between them, and on those that stand for memory inside each."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from ringtree.ir.schedule import Schedule
from ringtree.price.hosts import FASTEST_BPS, Hosts
from ringtree.price.pricing import Priced
from ringtree.price.rounds import distinct
from ringtree.topology import Topology, on_hosts
from ringtree.transform.rows import expand_block

MOST_KEPT = 1 << 10
"""The most transfers of a schedule that is kept as it was read: some 100 bytes each."""


@dataclass(frozen=True, slots=True)
class HostQuote:
    """A predicted time over hosts in parts: `seconds` is `network_s` (were memory and cores free), `memory_s` (added by
    copying, reading and reducing inside hosts) and `messages_s` (the work for messages to and from the network).
    `windows`: as the function of that name counts."""

    seconds: float
    network_s: float
    memory_s: float
    messages_s: float
    windows: int


class PricedOverHosts:
    """A schedule to be priced over hosts at any size. What takes most of the time is to read it for its links, and
    vectors that lie in the same cache have the same ones; a short schedule is kept as it was read last."""

    def __init__(self, schedule: Schedule, hosts: Hosts) -> None:
        self.schedule, self.hosts = schedule, hosts
        self._last: Priced | None = None

    def seconds(self, nbytes: int) -> float:
        """Seconds of the schedule on its links, plus those of the messages to and from the network, each of which costs
        a system call and more: the busiest rank's, or where ranks take turns on cores, a core's. A host's link serves
        messages one after the other, first come, first served. Chunks longer than a staging slot pass window by window:
        each rank ends one before it begins the next, and the messages of later windows cost nothing while the links are
        busy."""
        played_s = self._played_s(topology(self.hosts, nbytes), nbytes)
        return played_s + self._messages_s(nbytes, played_s)

    def quote(self, nbytes: int) -> HostQuote:
        """The time of the schedule, and its parts."""
        joined_s = self._played_s(topology(self.hosts, nbytes), nbytes)
        messages_s = self._messages_s(nbytes, joined_s)
        network_s = min(self._played_s(network(self.hosts), nbytes), joined_s)
        count = windows(self.schedule, self.hosts, nbytes)
        return HostQuote(joined_s + messages_s, network_s, joined_s - network_s, messages_s, count)

    def _played_s(self, links: Topology, nbytes: int) -> float:
        read = self._last
        if read is None or read.topology is not links:
            read = Priced(self.schedule, links)
            if self.schedule.transfers <= MOST_KEPT:
                self._last = read
        return read.windowed_seconds(nbytes, windows(self.schedule, self.hosts, nbytes))

    def _messages_s(self, nbytes: int, played_s: float) -> float:
        most, mean = self._ends
        window_s = max(most, mean * self.hosts.turns) * self.hosts.message_s
        further = windows(self.schedule, self.hosts, nbytes) - 1
        return window_s + max(further * window_s - played_s, 0.0)

    @cached_property
    def _ends(self) -> tuple[float, float]:
        """The messages to and from other hosts: of the busiest rank, and in the mean."""
        ends = remote_ends(self.schedule, self.hosts.host_of)
        return float(ends.max()), float(ends.mean())


def seconds(schedule: Schedule, hosts: Hosts, nbytes: int) -> float:
    """Seconds of the schedule, as PricedOverHosts has them."""
    return PricedOverHosts(schedule, hosts).seconds(nbytes)


def quote(schedule: Schedule, hosts: Hosts, nbytes: int) -> HostQuote:
    """The time of the schedule, and its parts."""
    return PricedOverHosts(schedule, hosts).quote(nbytes)


def topology(hosts: Hosts, nbytes: int) -> Topology:
    """The links that a schedule on a whole vector of `nbytes` meets. Where ranks share cores, each has its part of
    one, so what it does itself takes as many times longer."""
    share = _share(hosts)
    turns = share / hosts.memory.speed
    seen_nbytes = 2.0 * turns * (1 << (nbytes - 1).bit_length() if nbytes else 0)
    copy_s, fetch_s, reduce_s, _ = hosts.memory.parameters.seconds_a_byte(seen_nbytes, share > 1)
    return _topology(hosts, copy_s, fetch_s, reduce_s)


def network(hosts: Hosts) -> Topology:
    """The links between hosts alone: inside a host everything is free."""
    return _network(hosts.host_of, hosts.latency_s, hosts.bandwidth_Bps)


def windows(schedule: Schedule, hosts: Hosts, nbytes: int) -> int:
    """The number of pieces, one after the other, in which the schedule's chunks pass the staging slots."""
    widest = max((int(block.rows.count.max(initial=1)) for block in schedule.blocks), default=1)
    return max(-(-(nbytes // schedule.chunks * widest) // hosts.memory.slot_bytes), 1)


def remote_ends(schedule: Schedule, host_of: tuple[int, ...]) -> NDArray[np.int64]:
    """The number of messages to or from other hosts that each rank has, [ranks]."""
    host, ends = np.asarray(host_of), np.zeros(len(host_of), np.int64)
    for block in schedule.blocks:
        if block.shift.source or block.shift.target:
            block = expand_block(schedule, block)
        rows = block.rows  # else each repetition has the same ends
        away = host[rows.source] != host[rows.target]
        pair = (rows.round[away].astype(np.int64) * len(ends) + rows.source[away]) * len(ends) + rows.target[away]
        source, target = np.divmod(distinct(pair) % len(ends) ** 2, len(ends))
        for end in (source, target):
            ends += np.bincount(end, minlength=len(ends)) * block.times
    return ends


def _share(hosts: Hosts) -> float:
    """The ranks that share a core of the host with the most ranks, at least the turns that ranks take there."""
    most = int(np.bincount(np.unique(hosts.host_of, return_inverse=True)[1]).max())
    return max(most / hosts.memory.cores, hosts.turns)


@lru_cache(maxsize=64)
def _topology(hosts: Hosts, copy_s: float, fetch_s: float, reduce_s: float) -> Topology:
    """The links where a byte takes so many seconds on a core that one rank has alone."""
    parameters = hosts.memory.parameters
    turns = _share(hosts) / hosts.memory.speed
    return on_hosts(
        hosts.host_of,
        latency_s=hosts.latency_s,
        bandwidth_Bps=hosts.bandwidth_Bps,
        local_latency_s=parameters.latency_s,
        local_bandwidth_Bps=1 / (fetch_s * turns),
        message_s=parameters.message_s * turns,
        step_s=parameters.step_s * turns,
        copy_Bps=1 / (copy_s * turns),
        reduce_Bps=1 / (reduce_s * turns + copy_s * turns),
        fifo_between_hosts=True,
    )


@lru_cache(maxsize=64)
def _network(host_of: tuple[int, ...], latency_s: float, bandwidth_Bps: float) -> Topology:
    free = {"local_latency_s": 0.0, "local_bandwidth_Bps": FASTEST_BPS}
    return on_hosts(host_of, latency_s=latency_s, bandwidth_Bps=bandwidth_Bps, fifo_between_hosts=True, **free)
