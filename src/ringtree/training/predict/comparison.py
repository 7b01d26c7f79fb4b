"""Layouts of as many ranks, compared by the predicted time of a step's communication."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod

from ringtree.machines.clusters import Cluster
from ringtree.training.core.placement import most_parameters
from ringtree.training.core.plan import TrainingPlan
from ringtree.training.predict.plan_memory import PlanMemory
from ringtree.training.predict.priced_places import PricedPlaces
from ringtree.training.predict.step_times import StepPricing, StepTimes
from ringtree.training.predict.whole_step import WholeStep, played_bubble

FREE = ("pp", "dp", "tp")
"""The axes whose ranks are tried in any number that is not given."""


@dataclass(frozen=True)
class PricedLayout:
    """A plan with the times of its calls on a cluster."""

    plan: TrainingPlan
    times: StepTimes

    @property
    def why(self) -> str:
        """The reason why calls of some ranks have no price; "" where all have one."""
        return self.times.why or next((why for _, why in self.times.elsewhere), "")

    @cached_property
    def parameters(self) -> int:
        """The parameters of the rank that has the most between two steps."""
        return max(most_parameters(self.plan, position) for position in range(self.plan.layout.pp))

    @cached_property
    def memory(self) -> PlanMemory:
        """The memory of its ranks."""
        return PlanMemory(self.plan)

    @cached_property
    def bubble(self) -> float:
        """The waiting of the rank that computes most for the pipeline, over its computing; 0 without a pipeline."""
        return played_bubble(self.plan)

    def whole(self, flops_a_s: float) -> WholeStep:
        """The whole step on GPUs that compute so many floating-point operations a second."""
        return WholeStep(self.plan, self.times, flops_a_s)

    def by_axis_s(self) -> dict[str, float]:
        """The seconds of the calls along each axis."""
        found = dict[str, float]()
        for p in self.times.priced:
            if p.time:
                found[p.calls.axis] = found.get(p.calls.axis, 0.0) + p.calls.times * p.time.time_s
        return found


def sizes(ranks: int, given: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """Yields the ranks along each axis, whose product is `ranks`: those that are `given`, and every factor along the
    axes of FREE that are not."""
    rest, uneven = divmod(ranks, prod(given.values()))
    free = [axis for axis in FREE if axis not in given]
    if not uneven:
        yield from ({**given, **dict(zip(free, parts, strict=True))} for parts in _factors(rest, len(free)))


def _factors(whole: int, parts: int) -> Iterator[tuple[int, ...]]:
    if parts == 0:
        if whole == 1:
            yield ()
        return
    for first in (n for n in range(1, whole + 1) if whole % n == 0):
        if parts > 1 or first == whole:
            yield from ((first, *others) for others in _factors(whole // first, parts - 1))


def compared(plans: Iterable[TrainingPlan], cluster: Cluster) -> Iterator[PricedLayout]:
    """Yields each plan priced; they are of as many ranks. Calls of groups that are alike are priced once for all."""
    places = PricedPlaces(cluster)
    for plan in plans:
        yield PricedLayout(plan, StepPricing(plan, cluster, places).times)
