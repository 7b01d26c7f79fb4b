"""Engines: what one is, and those there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ringtree import late

if TYPE_CHECKING:
    from ringtree.runtime.engines.network import NetworkEnd

__all__ = ["NetworkEnd"]

__getattr__ = late.names(__name__, {"network": ("NetworkEnd",)})
