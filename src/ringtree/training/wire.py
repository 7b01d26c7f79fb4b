"""Bytes on the wire: what the engine's own counters say of all groups of this process together."""

from __future__ import annotations

from functools import cache

import torch.distributed as dist

from ringtree.runtime.communicator import Communicator
from ringtree.torch_backend import communicator, communicators


def received_nbytes() -> int:
    """What this rank received from others in collectives and messages of every living group, since it was made."""
    return sum(int(c.counters()[:, 0].sum()) for c in communicators()) if dist.is_initialized() else 0


def meet() -> None:
    """Waits for all ranks, in a group that is not counted: what they send before and after can be told apart."""
    if dist.is_initialized():
        _apart(communicator()).barrier()


@cache
def _apart(whole: Communicator) -> Communicator:
    return whole.duplicate()
