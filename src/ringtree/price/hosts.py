"""Ranks on several hosts as a place that schedules are priced in: shared memory inside each, a network between."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ringtree.ir.schedule import Schedule
from ringtree.price.memory import SharedMemory
from ringtree.price.pricing import Priced
from ringtree.price.rounds import distinct
from ringtree.topology import Topology
from ringtree.topology.shapes import on_hosts
from ringtree.transform.rows import expand_block

LATENCY_S = 30e-6
BANDWIDTH_BPS = 1.25e9
"""A message's time over TCP and a 10 Gbit/s link, for want of better."""
WIRE_MESSAGE_S = 6e-6
"""Seconds of a core's work for a message that its rank sends or receives over TCP."""
PAYLOAD_SHARE = 1448 / 1514
"""The share of payload in a link's bytes: TCP with time stamps in frames of 1500 bytes and Ethernet's header."""
FASTEST_BPS = 1e13
"""No network is faster."""


@dataclass(frozen=True, slots=True)
class NetworkCost:
    """A measured network: `latency_s` of a message from host to host beside the ranks' own work, `bandwidth_Bps` of a
    host's link, each way, in bytes of payload, `message_s` of a core's work for a message that its rank sends or
    receives. `source`: where they are from, in words. ValueError for numbers that no network has."""

    latency_s: float
    bandwidth_Bps: float
    source: str = field(default="", compare=False)
    message_s: float = WIRE_MESSAGE_S

    def __post_init__(self) -> None:
        if not 0 < self.latency_s <= 10:
            raise ValueError(f"network latency_s is {self.latency_s!r}; expected more than 0, at most 10 seconds")
        if not 1 <= self.bandwidth_Bps <= FASTEST_BPS:
            raise ValueError(f"network bandwidth_Bps is {self.bandwidth_Bps!r}; expected 1 to {FASTEST_BPS:g}")
        if not 0 <= self.message_s <= 1:
            raise ValueError(f"network message_s is {self.message_s!r}; expected 0 to 1 second")


@dataclass(frozen=True, slots=True)
class HostQuote:
    """A predicted time over hosts in parts: `seconds` is `network_s` (were memory and cores free), `memory_s` (added by
    copying, reading and reducing inside hosts) and `messages_s` (the work for messages to and from the network).
    `windows`: see `Hosts.windows`."""

    seconds: float
    network_s: float
    memory_s: float
    messages_s: float
    windows: int


@dataclass(frozen=True, slots=True)
class Hosts:
    """Ranks on several hosts, as a place to price. `host_of`: the number of each rank's host. `memory`: of each host.
    `latency_s` and `bandwidth_Bps`: the network's, from host to host, and of each host's link, each way. `turns`: the
    ranks that share a core, where more than one do: hosts that are containers of one machine share its cores.
    `measured`: the source of the network's costs, in words, where they were measured. `message_s`: a core's work for a
    message that its rank sends to another host or receives."""

    host_of: tuple[int, ...]
    memory: SharedMemory
    latency_s: float = LATENCY_S
    bandwidth_Bps: float = BANDWIDTH_BPS
    turns: float = 1.0
    measured: str = field(default="", compare=False)
    message_s: float = WIRE_MESSAGE_S

    @property
    def source(self) -> str:
        """The source of the costs, in words."""
        return (
            f"{len(set(self.host_of))} hosts, {self.latency_s * 1e6:.3g} us and {self.bandwidth_Bps / 1e9:.3g} GB/s "
            f"between them{', ' * bool(self.measured)}{self.measured}; {self.memory.parameters.source}"
        )

    def each(self) -> int:
        """The ranks of every host, where all have as many and they are consecutive; else 0."""
        ranks, hosts = len(self.host_of), len(set(self.host_of))
        each = ranks // hosts
        alike = ranks % hosts == 0 and all(len(set(self.host_of[at : at + each])) == 1 for at in range(0, ranks, each))
        return each if alike else 0

    def topology(self, nbytes: int) -> Topology:
        """The links that a schedule on a whole vector of `nbytes` meets. Where ranks share cores, each has its part of
        one, so what it does itself takes as many times longer."""
        return _topology(self, 1 << (nbytes - 1).bit_length() if nbytes else 0)

    def network(self) -> Topology:
        """The links between hosts alone: inside a host everything is free."""
        return _network(self.host_of, self.latency_s, self.bandwidth_Bps)

    def seconds(self, schedule: Schedule, nbytes: int) -> float:
        """Seconds of the schedule on its links, plus those of the messages to and from the network, each of which costs
        a system call and more: the busiest rank's, or where ranks take turns on cores, a core's. A host's link serves
        messages one after the other, first come, first served. Chunks longer than a staging slot pass window by window:
        each rank ends one before it begins the next, and the messages of later windows cost nothing while the links are
        busy."""
        played_s = self._played_s(schedule, self.topology(nbytes), nbytes)
        return played_s + self._messages_s(schedule, nbytes, played_s)

    def quote(self, schedule: Schedule, nbytes: int) -> HostQuote:
        """The time of the schedule, and its parts."""
        joined_s = self._played_s(schedule, self.topology(nbytes), nbytes)
        messages_s = self._messages_s(schedule, nbytes, joined_s)
        network_s = min(self._played_s(schedule, self.network(), nbytes), joined_s)
        windows = self.windows(schedule, nbytes)
        return HostQuote(joined_s + messages_s, network_s, joined_s - network_s, messages_s, windows)

    def _played_s(self, schedule: Schedule, topology: Topology, nbytes: int) -> float:
        return Priced(schedule, topology).windowed_seconds(nbytes, self.windows(schedule, nbytes))

    def _messages_s(self, schedule: Schedule, nbytes: int, played_s: float) -> float:
        ends = remote_ends(schedule, self.host_of)
        window_s = max(float(ends.max()), float(ends.mean()) * self.turns) * self.message_s
        return window_s + max((self.windows(schedule, nbytes) - 1) * window_s - played_s, 0.0)

    def windows(self, schedule: Schedule, nbytes: int) -> int:
        """The number of pieces, one after the other, in which the schedule's chunks pass the staging slots."""
        widest = max((int(block.rows.count.max(initial=1)) for block in schedule.blocks), default=1)
        return max(-(-(nbytes // schedule.chunks * widest) // self.memory.slot_bytes), 1)


@lru_cache(maxsize=64)
def _topology(hosts: Hosts, nbytes: int) -> Topology:
    parameters, cores = hosts.memory.parameters, hosts.memory.cores
    most = int(np.bincount(np.unique(hosts.host_of, return_inverse=True)[1]).max())
    turns = max(most / cores, hosts.turns)
    copy_s, fetch_s, reduce_s = (s * turns for s in parameters.seconds_a_byte(2.0 * nbytes * turns))
    return on_hosts(
        hosts.host_of,
        latency_s=hosts.latency_s,
        bandwidth_Bps=hosts.bandwidth_Bps,
        local_latency_s=parameters.latency_s,
        local_bandwidth_Bps=1 / fetch_s,
        message_s=parameters.message_s * turns,
        step_s=parameters.step_s * turns,
        copy_Bps=1 / copy_s,
        reduce_Bps=1 / (reduce_s + copy_s),
        fifo_between_hosts=True,
    )


@lru_cache(maxsize=64)
def _network(host_of: tuple[int, ...], latency_s: float, bandwidth_Bps: float) -> Topology:
    free = {"local_latency_s": 0.0, "local_bandwidth_Bps": FASTEST_BPS}
    return on_hosts(host_of, latency_s=latency_s, bandwidth_Bps=bandwidth_Bps, fifo_between_hosts=True, **free)


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
