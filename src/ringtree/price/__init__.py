"""The time of a schedule, on links, in a machine's memory or over hosts, and the lower bound of any schedule's time.

Names are loaded when they are first used: a caller that prices memory alone does not load flows and cuts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ringtree import late

if TYPE_CHECKING:
    from ringtree.price.bounds import Bounds, LowerBound, bound
    from ringtree.price.devices import Devices
    from ringtree.price.hosts import BANDWIDTH_BPS, LATENCY_S, Hosts, NetworkCost
    from ringtree.price.memory import BUILT_IN, CostParameters, SharedMemory
    from ringtree.price.pricing import Priced, Quote, quote
    from ringtree.price.where import Where, seconds

_NAMES = {
    "bounds": ("LowerBound", "Bounds", "bound"),
    "devices": ("Devices",),
    "hosts": ("BANDWIDTH_BPS", "LATENCY_S", "Hosts", "NetworkCost"),
    "memory": ("BUILT_IN", "CostParameters", "SharedMemory"),
    "pricing": ("Priced", "Quote", "quote"),
    "where": ("Where", "seconds"),
}

__all__ = [
    "BANDWIDTH_BPS",
    "BUILT_IN",
    "LowerBound",
    "Bounds",
    "CostParameters",
    "Devices",
    "Hosts",
    "LATENCY_S",
    "NetworkCost",
    "Priced",
    "Quote",
    "SharedMemory",
    "Where",
    "bound",
    "quote",
    "seconds",
]

__getattr__ = late.names(__name__, _NAMES)
