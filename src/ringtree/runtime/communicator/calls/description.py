"""A group in words, as RINGTREE_DEBUG prints it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ringtree.runtime.engines.engine import GroupParameters, JoinedGroup


def description(joined: JoinedGroup, engine: str, parameters: GroupParameters) -> Iterator[str]:
    """The lines about a group: its ranks, cores, engine and slots, and what its machine has of several kinds."""
    shared = ", more ranks than cores" if parameters.ranks > joined.cores else ""
    where = f"{len(set(joined.hosts))} hosts" if joined.network else "one machine"
    yield (
        f"{parameters.ranks} ranks ({', '.join(parameters.names)}) on {where}, "
        f"{joined.cores} cores{shared}; engine {engine}, "
        f"{joined.slots} slots of {joined.slot_bytes} bytes a rank"
    )
    if joined.devices:
        yield f"ranks on {len(set(joined.devices.device_of))} devices; costs by {joined.devices.source}"
    if joined.nodes:
        yield f"ranks on {len(set(joined.nodes))} NUMA nodes: {', '.join(map(str, joined.nodes))}"
    if joined.speed < 1:
        yield f"the slowest core has {joined.speed:.0%} of the fastest one's speed; calls are priced by it"
