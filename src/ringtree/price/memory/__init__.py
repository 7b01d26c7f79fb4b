"""The time of a schedule among ranks that share a machine's memory: its counts, priced by fitted cost parameters."""

from ringtree.price.memory.counts import Counts, counts
from ringtree.price.memory.parameters import BUILT_IN, CostParameters
from ringtree.price.memory.shared import MemoryQuote, SharedMemory, Workload, quote, seconds

__all__ = [
    "BUILT_IN",
    "CostParameters",
    "Counts",
    "MemoryQuote",
    "SharedMemory",
    "Workload",
    "counts",
    "quote",
    "seconds",
]
