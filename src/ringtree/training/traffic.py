"""What a strategy sends in a step, as it says itself: the formulas that the engine's counters are held against."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

FEWEST: dict[str, Callable[[int], int]] = {
    "all_reduce": lambda n: 2 * (n - 1),
    "all_gather": lambda n: n - 1,
    "reduce_scatter": lambda n: n - 1,
    "broadcast": lambda n: n - 1,
    "all_to_all": lambda n: n - 1,
    "send": lambda n: 1,
}
"""Bytes on the wire over those of the whole vector, in all of a group of n, by algorithms that move the fewest. The
whole vector: what each rank has (all_reduce, broadcast, all_to_all), the result (all_gather), the input
(reduce_scatter), the message."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """Calls of one collective in one step: `what` they carry, on which `axis`'s groups of `ranks`, and the `nbytes` of
    their whole vectors, of all calls and all groups together."""

    what: str
    collective: str
    axis: str
    ranks: int
    nbytes: int

    @property
    def wire_nbytes(self) -> int:
        """What all ranks together receive from others."""
        return FEWEST[self.collective](self.ranks) * self.nbytes if self.ranks > 1 else 0
