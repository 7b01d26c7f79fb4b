"""The meeting of one host's processes, and their shared memory: abstract unix sockets, whose ends the kernel names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ringtree import late

if TYPE_CHECKING:
    from ringtree.runtime.bootstrap.local.follower import Follower
    from ringtree.runtime.bootstrap.local.leader import Leader

__all__ = ["Follower", "Leader"]

__getattr__ = late.names(__name__, {"follower": ("Follower",), "leader": ("Leader",)})
