"""The cores that ranks which are started here are bound to."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import chain, groupby, pairwise
from pathlib import Path

SYSTEM = Path("/sys/devices/system/cpu")
"""The kernel's tree of cores."""


def usable() -> list[int]:
    """The numbers of the cores that this process may run on; [] on another system than Linux."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


def of_ranks(ranks: int, cores: Sequence[int]) -> list[int] | None:
    """The core of each of this host's ranks: the first ones, one a rank; None where there are fewer cores than ranks,
    which are then the scheduler's to place."""
    return list(cores[:ranks]) if ranks <= len(cores) else None


def shares(ranks: int, cores: Sequence[int]) -> list[list[int]] | None:
    """The cores of each of this host's ranks: all of them, shared out as evenly as may be, neighbours together, and
    threads of one core to one rank while there is a core for each; None where there are fewer than ranks."""
    if ranks > len(cores):
        return None
    whole = [list(threads) for _, threads in groupby(sorted(cores, key=_place), lambda core: _place(core)[:2])]
    parts = whole if ranks <= len(whole) else [[core] for core in chain(*whole)]
    ends = [len(parts) * rank // ranks for rank in range(ranks + 1)]
    return [sorted(chain(*parts[begin:end])) for begin, end in pairwise(ends)]


def _place(core: int) -> tuple[int, int, int]:
    """The socket, the core of it whose thread this is, and its number; where the kernel does not say, its number."""
    try:
        socket, own = (
            int((SYSTEM / f"cpu{core}/topology/{name}").read_text()) for name in ("physical_package_id", "core_id")
        )
    except (OSError, ValueError):
        return 0, core, core
    return socket, own, core
