"""The predicted time of each kind of a rank's calls in a step, by NCCL's choice of algorithm on a cluster.

A rank's calls are added up, as if nothing overlapped them: neither computation nor other calls. Waiting for other ranks
and computation are not in it. Groups of an axis communicate at the same time, and share their machines' NICs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from ringtree.machines.clusters import Cluster
from ringtree.price.bounds import SEND_RECV
from ringtree.training.core.plan import TrainingPlan
from ringtree.training.predict.placing import Placed
from ringtree.training.predict.priced_places import CallTime, PricedPlaces
from ringtree.training.strategies.registry import calls, traffic
from ringtree.training.strategies.strategy import RankCalls

BETWEEN_LAYERS = ("tp", "cp", "ep")
"""The axes for whose calls the next layer waits."""
AT_THEIR_OWN_PACE = "its ranks make no step together, so their messages meet as they come"


@dataclass(frozen=True, slots=True)
class PricedCalls:
    """Calls of one size, where their group lies, and the time of one; of several places the slowest. `time` None: not
    priced, `why`."""

    calls: RankCalls
    where: Placed | None
    time: CallTime | None
    why: str = ""


@dataclass(frozen=True, slots=True)
class StepTimes:
    """The calls of the ranks at `position` of "pp", whose priced calls take longest, or as long as those of others.
    `elsewhere`: other positions whose ranks have calls without a price, and why. `between_layers_s`: of the ranks at
    each position, the seconds of the priced calls for which the next layer waits."""

    position: int
    priced: tuple[PricedCalls, ...]
    elsewhere: tuple[tuple[int, str], ...] = ()
    between_layers_s: tuple[float, ...] = ()

    @property
    def why(self) -> str:
        """The reason why one of the calls has no price; "" where all have one."""
        return next((p.why for p in self.priced if p.why), "")

    def seconds(self, which: str = "time_s") -> float:
        """The time of all priced calls, one after another; `which`: or the low or high end of their intervals, added
        up as if all were off alike."""
        return _seconds(self.priced, which)


def between_layers_s(priced: Iterable[PricedCalls]) -> float:
    """The time of the calls for which the next layer waits."""
    return _seconds(p for p in priced if p.calls.axis in BETWEEN_LAYERS)


def _seconds(priced: Iterable[PricedCalls], which: str = "time_s") -> float:
    return sum((p.calls.times * float(getattr(p.time, which)) for p in priced if p.time), 0.0)


class StepPricing:
    """The prices of a training plan's calls on a cluster of as many GPUs as it has ranks, or more. `places`: those of
    other plans on the same cluster, whose groups are not priced again."""

    def __init__(self, plan: TrainingPlan, cluster: Cluster, places: PricedPlaces | None = None) -> None:
        self.plan, self.cluster = plan, cluster
        self.places = places or PricedPlaces(cluster)

    @cached_property
    def times(self) -> StepTimes:
        """The times of the ranks that communicate longest."""
        pp = self.plan.layout.pp
        found = [StepTimes(position, tuple(self._priced(position))) for position in range(pp)]
        longest = max(found, key=StepTimes.seconds)
        elsewhere = ((one.position, one.why) for one in found if one is not longest and one.why)
        layers_s = tuple(between_layers_s(one.priced) for one in found)
        return replace(longest, elsewhere=tuple(elsewhere), between_layers_s=layers_s)

    def _priced(self, position: int) -> Iterator[PricedCalls]:
        for call in calls(self.plan, position):
            yield self._one(call, position)
        if self.plan.layout.staleness is not None:
            for row in (t for t in traffic(self.plan) if t.wire_nbytes):
                yield PricedCalls(RankCalls(row.what, row.collective, row.axis, 0, 0), None, None, AT_THEIR_OWN_PACE)

    def _one(self, call: RankCalls, position: int) -> PricedCalls:
        layout = self.plan.layout
        places, reasons = self.places.of_groups(layout, call.axis, call.between, position)
        if reasons:
            return PricedCalls(call, None, None, min(reasons))
        collective, nbytes = _as_priced(call, layout.size(call.axis))
        slowest: PricedCalls | None = None
        for place in places:
            time = self.places.time(place, collective, nbytes)
            if isinstance(time, str):
                return PricedCalls(call, place, None, time)
            if slowest is None or slowest.time is None or time.time_s > slowest.time.time_s:
                slowest = PricedCalls(call, place, time)
        assert slowest is not None
        return slowest


def _as_priced(call: RankCalls, ranks: int) -> tuple[str, int]:
    """The collective and the bytes by which NCCL's model has the calls: messages are sends and receives between
    neighbours; an uneven all_to_all is an even one, whose vector has a rank's own part too."""
    if call.collective == "send":
        return SEND_RECV, call.nbytes
    if call.collective == "all_to_all_v":
        return "all_to_all", -(-call.nbytes * ranks // (ranks - 1))
    return call.collective, call.nbytes
