"""Starting ranks: as copies of a program, forked processes, or threads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ringtree import late

if TYPE_CHECKING:
    from ringtree.runtime.launch.traces import recordings, write_trace

__all__ = ["recordings", "write_trace"]

__getattr__ = late.names(__name__, {"traces": ("recordings", "write_trace")})
