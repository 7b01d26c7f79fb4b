"""Groups whose members change: survivors that go on without the dead, and processes that are taken in.

What does it is loaded when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ringtree import late

if TYPE_CHECKING:
    from ringtree.runtime.communicator.membership.growing import grow_group, join_group
    from ringtree.runtime.communicator.membership.shrinking import shrink_group

__all__ = ["grow_group", "join_group", "shrink_group"]

__getattr__ = late.names(__name__, {"growing": ("grow_group", "join_group"), "shrinking": ("shrink_group",)})
