"""What a strategy sends in a step, as it says itself: the formulas that the engine's counters are held against."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

FEWEST: dict[str, Callable[[int], int]] = {
    "all_reduce": lambda n: 2 * (n - 1),
    "all_gather": lambda n: n - 1,
    "reduce_scatter": lambda n: n - 1,
    "broadcast": lambda n: n - 1,
    "all_to_all": lambda n: n - 1,
    "send": lambda n: 1,
    "all_to_all_v": lambda n: 1,
}
"""Bytes on the wire over those of the whole vector, in all of a group of n, by algorithms that move the fewest. The
whole vector: what each rank has (all_reduce, broadcast, all_to_all), the result (all_gather), the input
(reduce_scatter), the message, what is for others (all_to_all_v)."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """Calls of one collective in one step: `what` they carry, on which `axis`'s groups of `ranks`, and the `nbytes` of
    their whole vectors, of all calls and all groups together. `at_most`: what is sent depends on the data, which is
    known after a step only: see `known`."""

    what: str
    collective: str
    axis: str
    ranks: int
    nbytes: int
    at_most: bool = False

    @property
    def wire_nbytes(self) -> int:
        """What all ranks together receive from others."""
        return FEWEST[self.collective](self.ranks) * self.nbytes if self.ranks > 1 else 0


def known(traffic: Iterable[Traffic], counted: Mapping[str, int]) -> tuple[Traffic, ...]:
    """After a step: bounds replaced by the `nbytes` that were counted in it on all ranks, by what they carry."""
    return tuple(replace(t, nbytes=counted[t.what], at_most=False) if t.at_most else t for t in traffic)
