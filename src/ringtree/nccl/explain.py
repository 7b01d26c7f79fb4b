"""Why a cluster is slow: measured times beside predicted times, for the cluster without faults and with each fault.

Times within the prediction's interval have no fault. Above it, the log is faster than predicted, and the reasons are
priced (`faster`). Below it, a fault is named where NCCL's log shows it, or where it brings the prediction to the
measured times, over all sizes, and clearly nearer than any algorithm of the cluster without faults does. Where several
faults do, all are named, with a command for each that confirms or excludes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache, partial

from ringtree.machines.clusters import Cluster
from ringtree.machines.paths import p2p, paths_of
from ringtree.nccl.cluster_plan import ClusterPlan, Planned
from ringtree.nccl.estimate import Estimate
from ringtree.nccl.faster import Reason, reasons
from ringtree.nccl.faults import HARDWARE, Fault, faults
from ringtree.nccl.files.measured_rows import NcclTestsRow
from ringtree.nccl.files.nccl_tests import Log
from ringtree.nccl.interval import rivals
from ringtree.nccl.matching import (
    SLOW_START,
    TAKEN,
    Compared,
    Match,
    MiddleSize,
    SizeRanges,
    is_impossible,
    middle_size,
)
from ringtree.nccl.remarks import remarks_on, shown_by_lines_alone
from ringtree.nccl.tuning.variables import FORCING, named

SLOWED = 0.85
"""A fault leaves at most this share of the speed; where NCCL's log shows one, a plateau below this share is slow."""
NEAR = 3
"""The factor, to either side, within which a fault that does not fit is listed as near."""
UNEXPLAINED = 0.7
"""A plateau below the interval, and below this share of the predicted, is slow although no cause is known."""
FASTER = 1.3
"""A plateau above the interval, and this many times the predicted speed, is reported."""
DOUBT = 0.6
"""The least distance of a fault whose speed is known as an upper bound alone, in a log without small sizes."""
OTHERWISE = 0.5
"""The largest distance, at length, at which a plateau is taken for another algorithm's."""
MIGHT_TAKE = 1.5
"""NCCL might take an algorithm whose time it estimates at less than this many times its pick's; a ring always."""
HOSTS_COPIES = (
    "these GPUs reach one another through the CPUs' memory, as the prediction has it: the speed of the copies depends "
    "on the host, and the interval is wide"
)
BELOW = "below the interval, but by so little that no cause can be named"
FITS = 1.15
"""The largest distance at which a fault fits."""
APART = 0.3
"""The least difference in distance at which one explanation is clearly better than another."""
ALIKE = 0.75
"""A fault that is nearer than this fits as well as the nearest one: a model is off by as much."""


class Diagnosis(str, Enum):
    """FASTER: above the interval. CAUSE: one fault. UNDECIDED: several faults fit alike. FAR_BELOW: under half of the
    prediction where the speed depends on the host's copies, with those faults that fit. UNEXPLAINED: slower than
    predicted, and no fault fits clearly. NO_CONCLUSION: no size of the log is small or large enough to judge."""

    HEALTHY = "no fault found"
    FASTER = "faster than predicted"
    CAUSE = "likely cause"
    UNDECIDED = "undecided"
    FAR_BELOW = "far below the prediction"
    UNEXPLAINED = "unexplained"
    NO_CONCLUSION = "no conclusion"


@dataclass(frozen=True, slots=True)
class Suspect:
    """A fault compared with the log. `evidence`, `denied`: the log's lines for and against the fault."""

    fault: Fault
    match: Match
    evidence: tuple[str, ...]
    denied: tuple[str, ...]

    @property
    def at_length(self) -> MiddleSize | None:
        """The plateau beside the prediction with the fault."""
        return self.match.at_length

    @property
    def at_start(self) -> MiddleSize | None:
        """Small sizes beside the prediction with the fault."""
        return self.match.at_start

    @property
    def distance(self) -> float:
        """The distance of the measured times from the fault's prediction; 1 is the largest deviation that fits."""
        distance = self.match.distance(self.fault.within, self.fault.slower)
        return max(distance, DOUBT) if self.fault.slower and self.at_start is None else distance

    @property
    def fits(self) -> bool:
        """Whether the fault explains the measured times."""
        return self.distance <= FITS


@dataclass(frozen=True, slots=True)
class Explanation:
    """`at_length`, `at_start`: the cluster without faults; `suspects`: the likeliest first; `reasons`: why the log may
    be faster; `algorithm`: where the times are those of another algorithm than NCCL's pick."""

    log: Log
    cluster: Cluster
    rows: tuple[Compared, ...]
    at_length: MiddleSize | None
    at_start: MiddleSize | None
    verdict: Diagnosis
    suspects: tuple[Suspect, ...] = ()
    reasons: tuple[Reason, ...] = ()
    algorithm: str = ""
    remarks: tuple[str, ...] = ()


Watched = Callable[[Sequence[Fault]], Iterable[Fault]]
Suspects = Callable[[], list[Suspect]]


def explain(nccl_log: Log, cluster: Cluster, watched: Watched = iter) -> Explanation:
    """The log's rows beside the cluster's predictions, and the verdict. `watched` yields the faults that are tried, to
    show how far it is. ValueError where the cluster has another number of ranks than the log."""
    found = _judge_log(nccl_log, cluster, watched)
    named = {suspect.fault.key for suspect in found.suspects}
    return replace(found, remarks=(*found.remarks, *shown_by_lines_alone(nccl_log, cluster, named)))


def _judge_log(nccl_log: Log, cluster: Cluster, watched: Watched) -> Explanation:
    """The explanation, but for what NCCL's lines show alone."""
    if nccl_log.ranks and cluster.ranks not in (nccl_log.ranks, *nccl_log.ranks_that_fit):
        fit = nccl_log.ranks_that_fit
        ranks = f"{fit[0]} to {fit[-1]}" if len(fit) > 1 else f"{nccl_log.ranks}"
        ranks += " ranks" + ", by busbw over algbw" * bool(fit)
        raise ValueError(f"{nccl_log.path}: has {ranks}; expected {cluster.ranks}, as {cluster.name} has")
    free = ClusterPlan(cluster)
    forced = _forced(nccl_log, free)
    plan = ClusterPlan(cluster, **forced) if forced else free
    rows = tuple(_compared(plan, nccl_log.collective, row) for row in nccl_log.rows)
    ranges = SizeRanges.of(rows)
    at_length, at_start = middle_size(ranges.plateau, _picked), middle_size(ranges.start, _picked)
    remarks = tuple(remarks_on(nccl_log, cluster, rows, at_start, forced))
    found = Explanation(nccl_log, cluster, rows, at_length, at_start, Diagnosis.HEALTHY, remarks=remarks)
    beside, decides = (at_length, ranges.plateau) if at_length else (at_start, ranges.start)
    if beside is None:
        return replace(found, verdict=Diagnosis.NO_CONCLUSION)
    if beside.ratio >= FASTER and _most([c.above for c in decides]):
        why = reasons(plan, nccl_log.collective, ranges)
        return replace(found, verdict=Diagnosis.FASTER, reasons=why)
    slow = _most([c.below for c in ranges.plateau]) or (at_start is not None and at_start.ratio < 1 / SLOW_START)
    if beside.ratio >= SLOWED:
        return found
    suspects = cache(partial(_suspects, nccl_log, cluster, forced, ranges, watched))
    if not (slow or nccl_log.debug):
        return _within(found, suspects)
    return _slower(found, suspects, ranges, slow)


def _slower(found: Explanation, all_suspects: Suspects, ranges: SizeRanges, slow: bool) -> Explanation:
    """The verdict on a log that is slower than predicted; `slow`: also below the interval."""
    suspects = all_suspects()
    shown = any(s.evidence for s in suspects)
    if not slow and not shown:
        return _within(found, all_suspects)
    healthy = _healthy(ranges)
    best = min((s.distance for s in suspects if not s.denied), default=FITS)
    other = min(healthy, key=lambda h: h[1])
    if other[0] and other[1] <= min(best + APART, FITS) and not shown:
        return replace(found, algorithm=other[0])
    verdict, kept = _judged([s for s in suspects if s.evidence or s.distance + APART <= other[1]])
    if verdict is not Diagnosis.UNEXPLAINED:
        return replace(found, verdict=verdict, suspects=kept)
    if _copied(found.cluster) and found.at_start and found.at_start.ratio >= OTHERWISE:
        return _far_below(found, suspects)
    if found.at_length and found.at_length.ratio >= UNEXPLAINED:
        return replace(found, remarks=(*found.remarks, BELOW))
    return replace(found, verdict=verdict, suspects=_judged(suspects)[1])


def _within(found: Explanation, all_suspects: Suspects) -> Explanation:
    """No fault, but where the interval is so wide that less than half the predicted speed is within it."""
    if _copied(found.cluster) and found.at_length and found.at_length.ratio < OTHERWISE:
        return _far_below(found, all_suspects())
    return found


def _far_below(found: Explanation, suspects: Sequence[Suspect]) -> Explanation:
    """The verdict where the speed depends on the host's copies: with the faults that fit as candidates."""
    verdict, kept = _judged(suspects)
    candidates = () if verdict is Diagnosis.UNEXPLAINED else kept
    if found.at_length and found.at_length.ratio >= OTHERWISE and not candidates:
        return replace(found, remarks=(*found.remarks, HOSTS_COPIES))
    remarks = (*found.remarks, HOSTS_COPIES)
    return replace(found, verdict=Diagnosis.FAR_BELOW, suspects=candidates, remarks=remarks)


def _compared(plan: ClusterPlan, collective: str, row: NcclTestsRow) -> Compared:
    planned = plan.row(collective, row.nbytes)
    interval = plan.interval(planned, planned.pick)
    assert interval is not None
    return Compared(row, planned, interval)


def _most(marks: Sequence[bool]) -> bool:
    return 2 * sum(marks) > len(marks)


def _picked(compared: Compared) -> Estimate:
    return compared.planned.pick


def _healthy(ranges: SizeRanges) -> list[tuple[str, float]]:
    """The distance of the log from the cluster without faults: from NCCL's picks (""), and from those with another
    algorithm, that NCCL might have taken, in the place of the one that it picks at length."""
    found = [("", Match.of(ranges, _picked).distance(HARDWARE))]
    taken = {c.planned.pick.algorithm for c in ranges.plateau}
    for algorithm in dict.fromkeys(e.algorithm for c in ranges.plateau for e in _might_take(c.planned)):

        def instead(c: Compared, algorithm: str = algorithm) -> Estimate:
            pick, others = c.planned.pick, (e for e in c.planned.candidates if e.algorithm == algorithm)
            return next(others, pick) if pick.algorithm in taken else pick

        match = Match.of(ranges, instead)
        if algorithm not in taken and Match(match.at_length, None, 0.0).distance(HARDWARE) <= OTHERWISE:
            last = instead(ranges.plateau[-1])
            found.append((f"{last.algorithm}/{last.protocol}", match.distance(HARDWARE)))
    return found


def _might_take(planned: Planned) -> Iterator[Estimate]:
    yield from rivals(planned.candidates, planned.theirs, MIGHT_TAKE)
    yield from (e for e in planned.candidates if e.algorithm == "ring")


def _forced(nccl_log: Log, free: ClusterPlan) -> dict[str, str]:
    """The algorithm and the protocol that NCCL's variables demand, where a variable names exactly one. What `free` does
    not have for the collective is left out: the calls were made all the same."""
    wanted = {what: named(nccl_log.debug.environment.get(name, "")) for what, name in FORCING.items()}
    out: dict[str, str] = {}
    if not any(wanted.values()) or not nccl_log.rows:
        return out
    left = free.candidates(nccl_log.collective, nccl_log.rows[-1].nbytes)[0]
    for what, name in wanted.items():
        if some := tuple(e for e in left if getattr(e, what) == name):
            out[what], left = name, some
    return out


def _suspects(
    nccl_log: Log, cluster: Cluster, forced: dict[str, str], ranges: SizeRanges, watched: Watched = iter
) -> list[Suspect]:
    """Every fault that would slow the cluster, compared with the log; the likeliest first. A fault that fits is left
    out where its lower bound is above a measured time, unless the log has evidence for it."""
    out = []
    few = ranges.thinned
    for fault in watched(faults(cluster)):
        plan = _plan(fault, forced)
        if plan is None:
            continue
        times = _times(plan, nccl_log.collective, few)
        if times is None:
            continue
        slowed = (times[c.row.nbytes].time_s > c.planned.pick.time_s / SLOWED for c in few.plateau or few.start)
        if any(slowed):

            def predicted(c: Compared, times: dict[int, Estimate] = times) -> Estimate:
                return times[c.row.nbytes]

            evidence, denied = fault.evidence_for(nccl_log.debug), fault.evidence_against(nccl_log.debug)
            suspect = Suspect(fault, Match.of(few, predicted), evidence, denied)
            tried = few.plateau if suspect.fits and not evidence else ()
            if not any(is_impossible(plan.row(nccl_log.collective, c.row.nbytes), c.row) for c in tried):
                out.append(suspect)
    return sorted(out, key=lambda s: (not s.evidence, bool(s.denied), s.distance))


def _plan(fault: Fault, forced: dict[str, str]) -> ClusterPlan | None:
    """The plan of a cluster with a fault; None where what was forced excludes it."""
    protocol = forced.get("protocol", fault.protocol)
    if fault.protocol not in (None, protocol) or forced.get("algorithm") in fault.excluded:
        return None
    return ClusterPlan(fault.cluster, algorithm=forced.get("algorithm"), protocol=protocol, excluded=fault.excluded)


def _times(plan: ClusterPlan, collective: str, ranges: SizeRanges) -> dict[int, Estimate] | None:
    """The pick at each size of the log; None where NCCL has no candidate left."""
    try:
        return {
            c.row.nbytes: plan.candidates(collective, c.row.nbytes)[1]
            for c in (*ranges.start, *ranges.middle, *ranges.plateau)
        }
    except ValueError:
        return None


def _judged(suspects: Sequence[Suspect]) -> tuple[Diagnosis, tuple[Suspect, ...]]:
    """The verdict and its suspects, of each kind the nearest."""
    nearest: dict[str, Suspect] = {}
    for s in suspects:
        nearest.setdefault(s.fault.key, s)
    if confirmed := [s for s in nearest.values() if s.evidence]:
        return Diagnosis.CAUSE, tuple(confirmed)
    left = [s for s in nearest.values() if not s.denied]
    alike = max(left[0].distance + APART, ALIKE) if left else 0.0
    fitting = [s for s in left if s.fits and s.distance <= alike]
    if not fitting:
        return Diagnosis.UNEXPLAINED, tuple(s for s in left[:TAKEN] if _is_near(s))
    return (Diagnosis.CAUSE if len(fitting) == 1 else Diagnosis.UNDECIDED), tuple(fitting)


def _is_near(suspect: Suspect) -> bool:
    beside = suspect.at_length or suspect.at_start
    return beside is None or 1 / NEAR <= beside.ratio <= NEAR


def _copied(cluster: Cluster) -> bool:
    """Whether a kernel or a CPU copies data in a cluster without faults."""
    if cluster.nodes > 1:
        return cluster.fabric is not None and not cluster.fabric.rdma
    paths, gpus = paths_of(cluster.machine), range(len(cluster.machine.gpus))
    return not any(p2p(paths, a, b).applies for a in gpus for b in gpus if a != b)
