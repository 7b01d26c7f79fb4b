"""The cores that ranks which are started here are bound to."""

from __future__ import annotations

import os
from collections.abc import Sequence


def usable() -> list[int]:
    """The numbers of the cores that this process may run on; [] on another system than Linux."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


def of_ranks(ranks: int, cores: Sequence[int]) -> list[int] | None:
    """The core of each of this host's ranks: the first ones, one a rank; None where there are fewer cores than ranks,
    which are then the scheduler's to place."""
    return list(cores[:ranks]) if ranks <= len(cores) else None
