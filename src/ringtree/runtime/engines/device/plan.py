"""A program in a processor's memory, as an endpoint keeps it."""

from __future__ import annotations

from typing import NamedTuple

from ringtree.runtime.engines.device.element_types import DeviceTypes
from ringtree.runtime.engines.device.encoding import DeviceCode, Pause


class DevicePlan(NamedTuple):
    """A program in the processor's memory: see Launched. `nbytes`: with its tables, of a small call each block's;
    `scratch_bytes`: of all blocks; `extents`: those of input and output that it touches. `native`: native calls may
    launch it again, as one kernel. `announced`: the host group's plan of the same arguments."""

    address: int
    nbytes: int
    code: DeviceCode
    windows: int
    types: DeviceTypes | None
    blocks: int
    threads: int
    length: int
    pauses: tuple[Pause, ...]
    sent: dict[int, int]
    scratch_chunks: int
    scratch_bytes: int
    extents: tuple[int, int]
    text: str
    native: bool
    flagged: bool
    announced: int
