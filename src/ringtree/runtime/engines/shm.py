"""Joins a group of the shared-memory engine: ranks bootstrap, exchange their cores, and make their native endpoints."""

from __future__ import annotations

import os
from typing import Any

import ringtree.errors  # noqa: F401  # gives the native errors their message
from ringtree.runtime.engines.engine import GroupParameters, JoinedGroup, NetworkParameters, native_module
from ringtree.runtime.engines.network import Listening
from ringtree.runtime.tuned import as_json, parameters_from

STAGING_BYTES = 1 << 20
"""Bytes of a rank's slots together: staging that fits a core's own cache runs at the cache's speed."""
FEWEST_SLOTS, MOST_SLOTS = 8, 4096


def join(parameters: GroupParameters) -> JoinedGroup:
    """Makes this rank's native endpoint; returns when all members have come."""
    native = native_module()
    slots, slot_bytes = staging(parameters.ranks, parameters.slots)
    sizes = parameters.ranks, slots, slot_bytes
    group = parameters.bootstrap_group(native.BUILD)
    hosts = parameters.bootstrap.hosts(group)
    listening = Listening(parameters) if len(set(hosts)) > 1 else None
    lazily = parameters.inherited is not None or listening is not None
    reserved = native.reserved_bytes(*sizes, lazily=lazily)
    try:
        offer = _offer(parameters, listening)
        fd, offers = parameters.bootstrap.share(group, native.segment_bytes(*sizes), offer, reserved)
    except BaseException:
        if listening:
            listening.close()
        raise
    try:
        network = listening and listening.network(hosts, [o[3] for o in offers])
    except BaseException:
        os.close(fd)
        if listening:
            listening.close()
        raise
    machines = listening.machines if listening else hosts
    cores = {m: _union([o[0] for o, other in zip(offers, machines, strict=True) if other == m]) for m in machines}
    here = machines[parameters.rank]
    endpoint = native.Group(
        fd,
        parameters.rank,
        parameters.ranks,
        slots=slots,
        slot_bytes=slot_bytes,
        timeout_s=parameters.timeout_s,
        oversubscribed=machines.count(here) > cores[here],
        threads=parameters.threads,
        names=list(parameters.names),
        inherited=parameters.inherited,
        network=network,
    )
    cost, source = offers[0][1:3]  # rank 0's, which a group that is made from another has already
    agreed = parameters_from(cost, source) if cost else parameters.cost if parameters.inherited else None
    turns = max(machines.count(m) / c for m, c in cores.items())
    between = NetworkParameters(listening.latency_s, turns=turns) if listening else None
    return JoinedGroup(endpoint, slots, slot_bytes, min(cores.values()), agreed, tuple(hosts), between)


def _offer(parameters: GroupParameters, listening: Listening | None) -> list[Any]:
    """What the others need of this rank: the cores it may use, a world's cost parameters and their source, an
    address."""
    mask = sum(1 << core for core in os.sched_getaffinity(0))
    cost = None if parameters.inherited or parameters.rank else parameters.cost
    return [
        f"{mask:x}",
        as_json(cost) if cost else None,
        cost.source if cost else None,
        listening.address if listening else None,
    ]


def staging(ranks: int, needed: int = 0) -> tuple[int, int]:
    """(slots, bytes of a slot) of a rank. In a round with a message of its own for every peer each needs a slot."""
    slots = max(FEWEST_SLOTS, ranks, needed)
    if slots > MOST_SLOTS:
        raise ValueError(f"{slots} staging slots a rank: the engine has at most {MOST_SLOTS}")
    return slots, max(STAGING_BYTES // slots // 4096 * 4096, 4096)


def _union(masks: list[str]) -> int:
    """How many cores these sets have between them."""
    total = 0
    for mask in masks:
        total |= int(mask, 16)
    return total.bit_count()
