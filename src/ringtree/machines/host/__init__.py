"""The limits and the network of this host as its kernel lists them, below a root: `/`, or another tree's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ringtree import late

if TYPE_CHECKING:
    from ringtree.machines.host.cores import cores_below

__all__ = ["cores_below"]

__getattr__ = late.names(__name__, {"cores": ("cores_below",)})
