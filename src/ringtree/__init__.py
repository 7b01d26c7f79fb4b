"""ringtree: collectives as data. Shown, proved, and run between the ranks of a machine.

    import ringtree
    comm = ringtree.init()
    total = comm.all_reduce(x)

Names are loaded when they are first used, so that `import ringtree` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ringtree import mpi as mpi
    from ringtree import storage as storage
    from ringtree.errors import Mismatch, PeerDied, Poisoned, RankFailed, TimedOut
    from ringtree.runtime.balanced_sum import balanced_sum
    from ringtree.runtime.communicator.calls.operations import Op, scaled
    from ringtree.runtime.communicator.communicator import Communicator
    from ringtree.runtime.communicator.messages.work import Work, wait_all, wait_any
    from ringtree.runtime.engines.tags import ANY
    from ringtree.runtime.launch.spawn import Pool, spawn
    from ringtree.runtime.world import init, join

__version__ = "0.1.0"  # pyproject.toml has it from here: to ask the package's metadata loads 70 modules

_HOME = {
    "ANY": "ringtree.runtime.engines.tags",
    "Communicator": "ringtree.runtime.communicator.communicator",
    "Mismatch": "ringtree.errors",
    "Op": "ringtree.runtime.communicator.calls.operations",
    "PeerDied": "ringtree.errors",
    "Poisoned": "ringtree.errors",
    "Pool": "ringtree.runtime.launch.spawn",
    "RankFailed": "ringtree.errors",
    "TimedOut": "ringtree.errors",
    "Work": "ringtree.runtime.communicator.messages.work",
    "balanced_sum": "ringtree.runtime.balanced_sum",
    "init": "ringtree.runtime.world",
    "join": "ringtree.runtime.world",
    "scaled": "ringtree.runtime.communicator.calls.operations",
    "spawn": "ringtree.runtime.launch.spawn",
    "wait_all": "ringtree.runtime.communicator.messages.work",
    "wait_any": "ringtree.runtime.communicator.messages.work",
}

_DOORS = ("mpi", "storage")  # packages that need no extra

__all__ = [
    "ANY",
    "Communicator",
    "Mismatch",
    "Op",
    "PeerDied",
    "Poisoned",
    "Pool",
    "RankFailed",
    "TimedOut",
    "Work",
    "__version__",
    "balanced_sum",
    "init",
    "join",
    "scaled",
    "spawn",
    "wait_all",
    "wait_any",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(import_module(_HOME[name]), name)
    elif name in _DOORS:
        value = import_module(f"ringtree.{name}")
    else:
        raise AttributeError(f"module 'ringtree' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_DOORS})
