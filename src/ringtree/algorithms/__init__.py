"""Published collective algorithms, one a file, and the table of them. A new one is a file here and a line in
`published`; a user's own are found by `register`, as FILE.py:FUNCTION, or in installed packages."""

from ringtree.algorithms.cost import Cost, cost
from ringtree.algorithms.registry import (
    NAMES,
    REGISTRY,
    Algorithm,
    build,
    check_options,
    exists,
    find,
    known,
    pairs,
    register,
    serving,
)

__all__ = [
    "NAMES",
    "REGISTRY",
    "Algorithm",
    "Cost",
    "build",
    "check_options",
    "cost",
    "exists",
    "find",
    "known",
    "pairs",
    "register",
    "serving",
]
