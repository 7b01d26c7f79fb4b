"""Bytes on the wire: what the engine's own counters say of all groups of this process together."""

from __future__ import annotations

import torch.distributed as dist

from ringtree.torch_backend import communicators


def received_nbytes() -> int:
    """What this rank received from others in collectives and messages of every living group, since it was made."""
    return sum(int(c.counters()[:, 0].sum()) for c in communicators()) if dist.is_initialized() else 0
