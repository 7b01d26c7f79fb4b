"""The things that command lines name: sizes, schedules, clusters, topologies, faults, files to write."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ringtree import late

if TYPE_CHECKING:
    from ringtree.cli.arguments.as_called import proved
    from ringtree.cli.arguments.destination import check_destinations

__all__ = ["check_destinations", "proved"]

__getattr__ = late.names(__name__, {"as_called": ("proved",), "destination": ("check_destinations",)})
