"""The ranks of a launcher that check their hosts together, and the links between these."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from typing import Any

from ringtree.bench.host_links import HostLinks, all_gather_json, gather_json, measure_host_links
from ringtree.bench.network import first_ranks
from ringtree.cli.doctor.network import addresses_by_name
from ringtree.runtime.bootstrap.network.connections import connections_to
from ringtree.runtime.communicator.communicator import Communicator
from ringtree.runtime.world import init

MEETING_S = 30.0
WAITING_S = 300.0
"""Seconds of a wait once the ranks have met: some hosts check longer than others."""


def meet() -> Communicator:
    """The group of all ranks, as a program's; raises as ringtree.init does."""
    comm = init(timeout_s=None if "RINGTREE_TIMEOUT" in os.environ else MEETING_S)
    comm.set_timeout(max(comm.timeout_s, WAITING_S))
    return comm


def speaks(comm: Communicator) -> bool:
    """Whether this rank checks its host: the lowest there."""
    return comm.rank in first_ranks(comm.hosts)


def gather_hosts(comm: Communicator, value: Any) -> list[Any] | None:
    """The values of the ranks that speak, by the hosts' numbers, at rank 0; None elsewhere."""
    found = gather_json(comm, value if speaks(comm) else None)
    return None if found is None else [found[rank] for rank in first_ranks(comm.hosts)]


def links(comm: Communicator, seconds: float) -> HostLinks | None:
    """The links between hosts, with the way of each: `measure_host_links`."""
    mine = [address for found in addresses_by_name().values() for address in found] if speaks(comm) else []
    addresses: Sequence[Sequence[str]] = all_gather_json(comm, mine)
    first = first_ranks(comm.hosts)

    def way_to(host: int) -> dict[str, Any] | None:
        with contextlib.suppress(OSError):  # a way that cannot be read ends no measurement
            return way(set(addresses[first[host]]))
        return None

    return measure_host_links(comm, seconds, way_to)


def way(addresses: set[str]) -> dict[str, Any] | None:
    """The way to a host of those addresses: the interface and addresses of the connection with the most bytes. None
    where there is no TCP connection."""
    names = {address: name for name, found in addresses_by_name().items() for address in found}
    for connection in connections_to(addresses - set(names)) or connections_to(addresses):
        return {
            "interface": names.get(connection.here, ""),
            "address": connection.here,
            "peer_address": connection.there,
            "path_mtu_bytes": connection.path_mtu_bytes,
            "sent_segments": connection.sent_segments,
            "retransmitted_segments": connection.retransmits,
        }
    return None
