"""Joins a group whose programs run on devices: its host group, then the memory that peers reach."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from ringtree.runtime.engines.device.endpoint import DeviceEndpoint
from ringtree.runtime.engines.device.lanes import MESSAGES_IN_LANE, MOST_SLOTS, LaneLayout
from ringtree.runtime.engines.device.processor import DeviceProcessor
from ringtree.runtime.engines.on_host import join_host

if TYPE_CHECKING:
    from ringtree.runtime.engines.engine import GroupParameters, JoinedGroup
    from ringtree.runtime.engines.protocols import Endpoint

FEWEST_SLOTS = 8
FLAGGED_BYTES, MESSAGE_BYTES, MOST_RANKS_FLAGGED = 1 << 26, 1 << 15, 64
"""Bytes of flagged messages that a rank has room for, together and in a block's part of each, and the ranks of a group
that has any. Their words take twice the room."""


def join_with(
    parameters: GroupParameters,
    make: Callable[[GroupParameters], DeviceProcessor],
    staging_bytes: int,
) -> JoinedGroup:
    """Returns when all members have come. `staging_bytes`: of a rank's slots together. ValueError: for more slots than
    a device has."""
    slots = 1 << (max(FEWEST_SLOTS, parameters.ranks, parameters.slots) - 1).bit_length()  # numbers of 32 bits wrap
    if slots > MOST_SLOTS:
        raise ValueError(f"a schedule needs {parameters.slots} staging slots of a rank; a device has {MOST_SLOTS}")
    joined = join_host(parameters)
    try:
        processor = make(parameters)
        slot_bytes = max(staging_bytes // slots // 4096 * 4096, 4096)
        flagged_bytes = _flagged_bytes(parameters.ranks, processor.blocks)
        lanes = LaneLayout(parameters.ranks, processor.blocks, slots, slot_bytes, flagged_bytes)
        endpoint = DeviceEndpoint(joined.endpoint, processor, parameters, lanes)
    except BaseException:
        joined.endpoint.close()
        raise
    own = joined._replace(endpoint=cast("Endpoint", endpoint), slots=slots, slot_bytes=slot_bytes)
    return own._replace(single_copy_bytes=0, devices=processor.costs)


def _flagged_bytes(ranks: int, blocks: int) -> int:
    """Bytes of a block's part of a flagged message, at most; 0: no message is flagged."""
    if ranks > MOST_RANKS_FLAGGED:
        return 0
    return min(MESSAGE_BYTES, FLAGGED_BYTES // (ranks * blocks * MESSAGES_IN_LANE) // 256 * 256)
