"""The engine `cuda`: programs on arrays in the memory of this machine's GPUs, whose ranks map each other's memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ringtree.runtime.engines.device.cuda import CudaProcessor
from ringtree.runtime.engines.device.joining import join_with

if TYPE_CHECKING:
    from ringtree.runtime.engines.engine import GroupParameters, JoinedGroup

STAGING_BYTES = 256 << 20


def join(parameters: GroupParameters) -> JoinedGroup:
    """Makes this rank's endpoint; returns when all members have come. ImportError or RuntimeError, with the remedy,
    where there is no device."""
    return join_with(parameters, CudaProcessor, STAGING_BYTES)
