"""How long a schedule takes, on links or in a machine's memory, and how far that is from the possible.

Names are loaded when they are first used: who asks of memory alone does not pay for flows and cuts.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ringtree.price.bounds import Bound, Bounds, bound
    from ringtree.price.memory import BUILT_IN, CostParameters, SharedMemory
    from ringtree.price.pricing import Priced, Quote, quote
    from ringtree.price.where import Where, seconds

_HOME = {
    "BUILT_IN": "ringtree.price.memory",
    "Bound": "ringtree.price.bounds",
    "Bounds": "ringtree.price.bounds",
    "CostParameters": "ringtree.price.memory",
    "Priced": "ringtree.price.pricing",
    "Quote": "ringtree.price.pricing",
    "SharedMemory": "ringtree.price.memory",
    "Where": "ringtree.price.where",
    "bound": "ringtree.price.bounds",
    "quote": "ringtree.price.pricing",
    "seconds": "ringtree.price.where",
}

__all__ = [
    "BUILT_IN",
    "Bound",
    "Bounds",
    "CostParameters",
    "Priced",
    "Quote",
    "SharedMemory",
    "Where",
    "bound",
    "quote",
    "seconds",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'ringtree.price' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOME[name]), name)
    return value
