"""The engine `emulated`: devices' programs by the interpreter of devices, on this machine's processor, to be tested."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ringtree.runtime.engines.device.emulated import EmulatedProcessor
from ringtree.runtime.engines.device.joining import join_with

if TYPE_CHECKING:
    from ringtree.runtime.engines.engine import GroupParameters, JoinedGroup

STAGING_BYTES = 1 << 18
"""Small, so that tests pass through windows and waits for slots."""


def join(parameters: GroupParameters) -> JoinedGroup:
    """Makes this rank's endpoint; returns when all members have come."""
    return join_with(parameters, EmulatedProcessor, STAGING_BYTES)
