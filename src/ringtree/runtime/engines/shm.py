"""Joins a group of the shared-memory engine: ranks bootstrap, exchange their cores, and make their native endpoints."""

from __future__ import annotations

import os

import ringtree.errors  # noqa: F401  # gives the native errors their message
from ringtree.runtime.engines.engine import GroupParameters, JoinedGroup, native_module
from ringtree.runtime.tuned import as_json, parameters_from

STAGING_BYTES = 1 << 20
"""Bytes of a rank's slots together: staging that fits a core's own cache runs at the cache's speed."""
FEWEST_SLOTS, MOST_SLOTS = 8, 4096


def join(parameters: GroupParameters) -> JoinedGroup:
    """Makes this rank's native endpoint; returns when all members have come."""
    native = native_module()
    slots, slot_bytes = staging(parameters.ranks, parameters.slots)
    mine = sum(1 << core for core in os.sched_getaffinity(0))
    sizes = parameters.ranks, slots, slot_bytes
    whole = native.segment_bytes(*sizes)
    cost = None if parameters.inherited or parameters.rank else parameters.cost
    offer = [f"{mine:x}", *([as_json(cost), cost.source] if cost else [])]
    reserved = native.reserved_bytes(*sizes, lazily=parameters.inherited is not None)
    fd, offers = parameters.bootstrap.share(parameters.bootstrap_group(native.BUILD), whole, offer, reserved)
    cores = _union([mask for mask, *_ in offers]).bit_count()
    announced = offers[0][1:]  # rank 0's cost parameters, which a group that is made from another has already
    endpoint = native.Group(
        fd,
        parameters.rank,
        parameters.ranks,
        slots=slots,
        slot_bytes=slot_bytes,
        timeout_s=parameters.timeout_s,
        oversubscribed=parameters.ranks > cores,
        threads=parameters.threads,
        names=list(parameters.names),
        inherited=parameters.inherited,
    )
    agreed = parameters_from(*announced) if announced else parameters.cost if parameters.inherited else None
    return JoinedGroup(endpoint, slots, slot_bytes, cores, agreed)


def staging(ranks: int, needed: int = 0) -> tuple[int, int]:
    """(slots, bytes of a slot) of a rank. In a round with a message of its own for every peer each needs a slot."""
    slots = max(FEWEST_SLOTS, ranks, needed)
    if slots > MOST_SLOTS:
        raise ValueError(f"{slots} staging slots a rank: the engine has at most {MOST_SLOTS}")
    return slots, max(STAGING_BYTES // slots // 4096 * 4096, 4096)


def _union(masks: list[str]) -> int:
    total = 0
    for mask in masks:
        total |= int(mask, 16)
    return total
