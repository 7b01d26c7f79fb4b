"""Joins a group whose programs run on devices: its host group, then the memory that peers reach."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from ringtree.runtime.engines.device.endpoint import DeviceEndpoint
from ringtree.runtime.engines.device.lanes import LaneLayout
from ringtree.runtime.engines.device.processor import DeviceProcessor
from ringtree.runtime.engines.on_host import join_host

if TYPE_CHECKING:
    from ringtree.runtime.engines.engine import GroupParameters, JoinedGroup
    from ringtree.runtime.engines.protocols import Endpoint

FEWEST_SLOTS = 8


def join_with(
    parameters: GroupParameters,
    make: Callable[[GroupParameters], DeviceProcessor],
    staging_bytes: int,
) -> JoinedGroup:
    """Returns when all members have come. `staging_bytes`: of a rank's slots together."""
    joined = join_host(parameters)
    try:
        processor = make(parameters)
        slots = max(FEWEST_SLOTS, parameters.ranks, parameters.slots)
        slot_bytes = max(staging_bytes // slots // 4096 * 4096, 4096)
        lanes = LaneLayout(parameters.ranks, processor.blocks, slots, slot_bytes)
        endpoint = DeviceEndpoint(joined.endpoint, processor, parameters, lanes)
    except BaseException:
        joined.endpoint.close()
        raise
    own = joined._replace(endpoint=cast("Endpoint", endpoint), slots=slots, slot_bytes=slot_bytes)
    return own._replace(single_copy_bytes=0, devices=processor.costs)
