"""Why a log may be faster than predicted: what the cluster may have that it was not given, each priced by the model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import inf

from ringtree.machines.clusters import Cluster
from ringtree.machines.nics import with_nics
from ringtree.nccl.cluster_plan import ClusterPlan
from ringtree.nccl.estimate import Estimate
from ringtree.nccl.faults.fault import HARDWARE
from ringtree.nccl.interval.classes import within
from ringtree.nccl.matching import Compared, Match, SizeRanges

FITS = 1.15
"""The largest distance at which a reason fits."""
HELPS = 1.1
"""A reason that makes the prediction faster by this factor explains a part."""
CACHE_BYTES = 128 << 20
"""A buffer of a few GPUs that their last level of cache may hold from call to call."""


@dataclass(frozen=True, slots=True)
class Reason:
    """`match`: the log beside the model's prediction with it, None where the model has none; `fits`: whether it brings
    the prediction to the measured times. `check`: what confirms it."""

    key: str
    what: str
    check: str
    match: Match | None = None

    @property
    def distance(self) -> float:
        """The distance of the log from the prediction with this reason."""
        return self.match.distance(HARDWARE) if self.match else inf

    @property
    def fits(self) -> bool:
        """Whether the prediction with this reason explains the measured times."""
        return self.distance <= FITS


def reasons(plan: ClusterPlan, collective: str, ranges: SizeRanges) -> tuple[Reason, ...]:
    """The reasons for a log above its interval, those that fit first, the nearest one first. Priced ones that change
    little, or that allow far more than was measured, are left out."""
    before = Match.of(ranges, lambda c: c.planned.pick)
    found = [r for r in _priced(plan, collective, ranges) if r.fits or _helps(before, r)]
    return tuple(sorted([*found, *_others(plan, ranges)], key=lambda r: r.distance if r.fits else inf))


def _helps(before: Match, reason: Reason) -> bool:
    """Whether the prediction with a reason is nearer to the log, and not beyond it."""
    beside = [(m.at_length or m.at_start) for m in (before, reason.match) if m]
    without, with_it = (size.ratio if size else 1.0 for size in beside)
    return 1 / HARDWARE <= with_it <= without / HELPS


def _priced(plan: ClusterPlan, collective: str, ranges: SizeRanges) -> Iterator[Reason]:
    cluster, few = plan.cluster, ranges.thinned

    def on(other: Cluster, share: int = 1) -> Match:
        there = ClusterPlan(other, algorithm=plan.algorithm, protocol=plan.protocol, excluded=plan.excluded)
        return Match.of(few, _picked(there, collective, share))

    if cluster.nodes > 1:
        machine = cluster.machine
        count, rate = len(machine.nics), max((machine.devices[n].rate_Bps for n in machine.nics), default=0.0)
        for times in (2, 4) if rate else ():
            yield Reason(
                "nics",
                f"{times} times the NICs, or NICs {times} times as fast, as the cluster was given",
                "NCCL_DEBUG=INFO prints `NET/IB : Using` and the ports, `ibstat` their rates: give --nics",
                on(replace(cluster, machine=with_nics(machine, count, rate * times))),
            )
        if not cluster.sharp and cluster.fabric and cluster.fabric.sharp:
            yield Reason(
                "sharp",
                "the network's switches reduce (SHARP)",
                "NCCL_DEBUG=INFO prints `SHARP` and CollNet where it is on: give --sharp",
                on(replace(cluster, sharp=True)),
            )
    yield Reason(
        "size",
        "the log's sizes count the buffers of all ranks, where nccl-tests counts one vector",
        "NCCL_DEBUG_SUBSYS=COLL prints each call's count and type",
        on(cluster, cluster.ranks),
    )


def _picked(plan: ClusterPlan, collective: str, share: int) -> Callable[[Compared], Estimate]:
    return lambda c: plan.candidates(collective, max(c.row.nbytes // share, 1))[1]


def _others(plan: ClusterPlan, ranges: SizeRanges) -> Iterator[Reason]:
    """Reasons that the model has no price for."""
    above = [c for c in (*ranges.middle, *ranges.plateau) if c.above]
    if above and max(c.row.nbytes for c in above) <= CACHE_BYTES:
        yield Reason(
            "cache",
            "buffers that stay in the GPUs' cache from one call to the next",
            "larger sizes, at least ten times the GPUs' cache",
        )
    if within(plan.cluster, plan.graphs) in ("pcie", "host"):
        yield Reason(
            "links",
            "links between GPUs (NVLink bridges, peer-to-peer) that the topology does not list",
            "`nvidia-smi topo -m`, and `nvidia-smi topo -p2p r`: give the machine's own file",
        )
    if all(c.planned.bound.time_s <= c.row.time_s for c in ranges.plateau):
        known = all(c.interval.scale.alike for c in (*ranges.start, *ranges.plateau))
        yield Reason(
            "model",
            "the prediction is too slow: the links allow these times"
            + ("" if known else ", and no measured system of this class was ever compared"),
            "`ringtree plan --all` with the same topology: another candidate, and the column of bound",
        )
    yield Reason(
        "machine",
        "another machine, or another number of GPUs on each, than the topology's",
        "the log's list of ranks and devices, beside `ringtree topo show`",
    )
