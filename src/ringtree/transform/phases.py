"""The phases of a nested collective: inside groups of ranks, and between the groups."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ringtree.ir.schedule import Schedule

Indices = NDArray[np.int64]
Members = list[Indices]
"""The ranks of each group, in rising order."""


class ScheduleBuilder(Protocol):
    """The interface of an algorithm that can be nested: it makes schedules of the collectives it serves, over any
    ranks."""

    @property
    def name(self) -> str:
        """The name of the algorithm."""

    @property
    def serves(self) -> Collection[str]:
        """The names of the collectives that it serves."""

    def build(self, collective: str, ranks: int, root: int | None = None, /) -> Schedule:
        """Returns the schedule of a collective that it serves, over any number of ranks."""


INSIDE, BETWEEN = "inside", "between"
Phase = tuple[str, str]

PHASES: dict[str, tuple[tuple[Phase, ...], ...]] = {
    "all_reduce": (
        ((INSIDE, "reduce_scatter"), (BETWEEN, "all_reduce"), (INSIDE, "all_gather")),
        ((INSIDE, "reduce"), (BETWEEN, "all_reduce"), (INSIDE, "broadcast")),
    ),
    "reduce_scatter": (((INSIDE, "reduce_scatter"), (BETWEEN, "reduce_scatter")),),
    "all_gather": (((BETWEEN, "all_gather"), (INSIDE, "all_gather")),),
    "broadcast": (((BETWEEN, "broadcast"), (INSIDE, "broadcast")),),
    "reduce": (((INSIDE, "reduce"), (BETWEEN, "reduce")),),
    "gather": (((INSIDE, "gather"), (BETWEEN, "gather")),),
    "scatter": (((BETWEEN, "scatter"), (INSIDE, "scatter")),),
    "all_to_all": (((BETWEEN, "all_to_all"), (INSIDE, "all_to_all")),),
}
"""The nestings of each collective, the best first; one is possible if both algorithms serve its phases."""


def nesting_of(collective: str, inner: ScheduleBuilder, outer: ScheduleBuilder) -> tuple[Phase, ...]:
    """The best nesting that both algorithms serve; ValueError where there is none."""
    nestings = PHASES.get(collective)
    if nestings is None:
        raise ValueError(f"nest: {collective} is not nested; expected one of {', '.join(PHASES)}")
    for nesting in nestings:
        if all(what in (inner if where is INSIDE else outer).serves for where, what in nesting):
            return nesting
    asked = "; or ".join(
        ", ".join(f"{what} by {inner.name if where is INSIDE else outer.name}" for where, what in nesting)
        for nesting in nestings
    )
    raise ValueError(f"nest: {collective} of {inner.name} inside {outer.name} needs {asked}")
