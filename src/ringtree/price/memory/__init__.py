"""The time of a schedule among ranks that share a machine's memory: its counts, priced by fitted cost parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ringtree import late

if TYPE_CHECKING:
    from ringtree.price.memory.counting import Counts, counts
    from ringtree.price.memory.parameters import BUILT_IN, CostParameters, SharedMemory, built_in
    from ringtree.price.memory.shared import MemoryQuote, Workload, quote, seconds

_NAMES = {
    "counting": ("Counts", "counts"),
    "parameters": ("BUILT_IN", "CostParameters", "SharedMemory", "built_in"),
    "shared": ("MemoryQuote", "Workload", "quote", "seconds"),
}

__all__ = [
    "BUILT_IN",
    "CostParameters",
    "Counts",
    "MemoryQuote",
    "SharedMemory",
    "Workload",
    "built_in",
    "counts",
    "quote",
    "seconds",
]

__getattr__ = late.names(__name__, _NAMES)
