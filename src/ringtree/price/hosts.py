"""Ranks on several hosts as a place that schedules are priced in: shared memory inside each, a network between. Times
there are `over_hosts`'."""

from __future__ import annotations

from dataclasses import dataclass, field

from ringtree.price.memory.parameters import SharedMemory

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
