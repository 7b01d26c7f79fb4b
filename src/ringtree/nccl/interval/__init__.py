"""The interval of a prediction: named unknowns of the cluster, each carried through the model of the hardware.

An unknown has two variants, at the quicker and at the slower end of what may be true. The model's time with each, all
else as predicted, is the unknown's part of the interval. Unknowns are independent, so that their parts, as logarithms,
add as squares do. The sum is scaled by how far measured systems of the same class were off (`compared`), which is why
an interval is wide where no such system was ever compared.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import exp, hypot, log

from ringtree.machines.channels import Channels, Pattern
from ringtree.machines.clusters import Cluster
from ringtree.nccl import transport
from ringtree.nccl.estimate import Estimate
from ringtree.nccl.interval.classes import class_of
from ringtree.nccl.interval.compared import Scale, scale
from ringtree.nccl.interval.unknowns import PAYLOAD, RIVAL, RIVAL_WITHIN, Unknown, Variant, unknowns

__all__ = ["Interval", "Intervals", "Part", "halves", "rivals"]


@dataclass(frozen=True, slots=True)
class Part:
    """The times that one unknown allows alone, all else as predicted, before the scale."""

    key: str
    why: str
    low_s: float
    high_s: float


@dataclass(frozen=True, slots=True)
class Interval:
    """`low_s` and `high_s`: about 80 of 100 measured times are between them. `parts`: the widest first."""

    low_s: float
    high_s: float
    parts: tuple[Part, ...]
    scale: Scale


class Intervals:
    """The intervals of predictions for one cluster."""

    def __init__(self, cluster: Cluster, graphs: Mapping[Pattern, Channels]) -> None:
        self.cluster, self.graphs = cluster, graphs
        self._last: tuple[str, int] = ("", -1)
        self._times: dict[tuple[int, str, str], float | None] = {}

    @cached_property
    def unknowns(self) -> tuple[Unknown, ...]:
        """All that is unknown about this cluster."""
        return tuple(unknowns(self.cluster, self.graphs))

    def around(
        self,
        estimate: Estimate,
        collective: str,
        nbytes: int,
        rivals: Sequence[Estimate] = (),
        without: Collection[str] = (),
    ) -> Interval:
        """The interval of an estimate of `transport.estimates`. `rivals`: what else NCCL may pick there. `without`:
        compared systems that are left out of the scale."""
        parts = self.parts(estimate, collective, nbytes, rivals)
        found = scale(class_of(self.cluster, self.graphs, collective), without)
        faster, slower = halves(parts, estimate.time_s)
        low_s, high_s = estimate.time_s * exp(-found.factor * faster), estimate.time_s * exp(found.factor * slower)
        return Interval(low_s, high_s, parts, found)

    def parts(
        self, estimate: Estimate, collective: str, nbytes: int, rivals: Sequence[Estimate] = ()
    ) -> tuple[Part, ...]:
        """The part of each unknown that matters there, the widest first."""
        if self._last != (collective, nbytes):
            self._last, self._times = (collective, nbytes), {}
        out = []
        for unknown in self.unknowns:
            ends = [self._time_s(v, estimate, collective, nbytes) for v in (unknown.quicker, unknown.slower)]
            out.append(_part(unknown.key, unknown.why, estimate.time_s, ends))
        out.append(_part(*RIVAL, estimate.time_s, [e.time_s for e in rivals]))
        some = [p for p in out if p.high_s > p.low_s * NOTHING]
        return tuple(sorted(some, key=lambda p: p.low_s / p.high_s))

    def _time_s(self, variant: Variant, estimate: Estimate, collective: str, nbytes: int) -> float:
        """The estimate's time as it is with the variant."""
        for named, own in ((variant.protocols, estimate.protocol), (variant.algorithms, estimate.algorithm)):
            if named and own not in named:
                return estimate.time_s
        time_s = self._estimated_s(variant, estimate, collective, nbytes)
        transfer_s = min(nbytes / estimate.bandwidth_Bps, estimate.time_s - estimate.latency_s)
        fill_s = estimate.time_s - estimate.latency_s - transfer_s
        if variant.copies != 1 and not self._network_bound(estimate, collective, nbytes):
            ends = time_s, estimate.time_s + (variant.copies - 1) * transfer_s
            time_s = max(ends) if variant.copies > 1 else min(ends)
        changes = ((variant.latency, estimate.latency_s), (variant.transfer, transfer_s), (variant.fill, fill_s))
        return time_s + sum((factor - 1) * of_s for factor, of_s in changes)

    def _estimated_s(self, variant: Variant, estimate: Estimate, collective: str, nbytes: int) -> float:
        """The model's time on the variant's cluster and channels."""
        if variant.cluster is None and variant.graphs is None:
            return estimate.time_s
        which = estimate.algorithm, estimate.protocol
        key = id(variant), *which
        if key not in self._times:
            cluster, graphs = variant.cluster or self.cluster, variant.graphs or self.graphs
            found = transport.estimates(cluster, graphs, collective, nbytes, which)
            self._times[key] = next((e.time_s for e in found if (e.algorithm, e.protocol) == which), None)
        return self._times[key] or estimate.time_s

    def _network_bound(self, estimate: Estimate, collective: str, nbytes: int) -> bool:
        """Whether the network is the bottleneck: less payload costs time."""
        variant = next((u.slower for u in self.unknowns if u.key == PAYLOAD), None)
        if variant is None:
            return False
        return self._estimated_s(variant, estimate, collective, nbytes) > estimate.time_s * NOTHING


NOTHING = 1.001
"""A part that is narrower than this factor is left out."""


def halves(parts: Sequence[Part], time_s: float) -> tuple[float, float]:
    """Both halves of an interval before the scale, as logarithms of a factor: the quicker and the slower side."""
    return hypot(*(log(time_s / p.low_s) for p in parts)), hypot(*(log(p.high_s / time_s) for p in parts))


def _part(key: str, why: str, time_s: float, ends: Sequence[float]) -> Part:
    return Part(key, why, min(time_s, *ends, time_s), max(time_s, *ends, time_s))


def rivals(ours: Sequence[Estimate], theirs: Sequence[Estimate], times: float = RIVAL_WITHIN) -> tuple[Estimate, ...]:
    """The estimates of the candidates that NCCL might pick instead: those that NCCL itself estimates at up to `times`
    its pick's time. `theirs`: NCCL's estimates."""
    best = min((e.time_s for e in theirs), default=0.0)
    near = {(e.algorithm, e.protocol) for e in theirs if e.time_s <= times * best}
    return tuple(e for e in ours if (e.algorithm, e.protocol) in near)
