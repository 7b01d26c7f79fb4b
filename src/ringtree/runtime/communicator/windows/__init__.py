"""Memory that ranks of a group read and write in place. What makes it is loaded when it is first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ringtree import late

if TYPE_CHECKING:
    from ringtree.runtime.communicator.windows.symmetric import Window, allocate, insert, last_from, request

__all__ = ["Window", "allocate", "insert", "last_from", "request"]

__getattr__ = late.names(__name__, {"symmetric": tuple(__all__)})
