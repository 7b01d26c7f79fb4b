"""Why a cluster is slow: measured times beside predicted times, for the cluster without faults and with each fault.

A fault is named where NCCL's log shows it, or where it alone brings the prediction to the measured times, at length and
at small sizes. Where several faults do, all are named, with a command for each that confirms or excludes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from math import hypot, inf, log

from ringtree.machines.channels import Pattern
from ringtree.machines.clusters import Cluster
from ringtree.machines.machine import NoteKind
from ringtree.machines.paths import Paths, p2p
from ringtree.nccl.cluster_plan import ClusterPlan, Planned
from ringtree.nccl.estimate import Estimate
from ringtree.nccl.faults import HARDWARE, Fault, faults
from ringtree.nccl.files.nccl_tests import Log, NcclTestsRow
from ringtree.nccl.tuning.figures import ALGORITHMS, PROTOCOLS
from ringtree.nccl.tuning.variables import named

WELL = 0.7
"""A plateau of at least this share of the predicted one is no fault: models, hosts and fabrics differ by as much."""
WELL_COPIED = 0.4
"""The least share where a kernel or a CPU copies data in a cluster without faults."""
SLOWED = 0.85
"""A fault leaves at most this share of the speed; where NCCL's log shows one, a plateau below this share is slow."""
RING = ("ring", "simple")
"""The algorithm and protocol of every NCCL, its choice where nothing better applies or its variables demand it."""
DOUBT = 0.6
"""The least distance of a fault whose speed is known as an upper bound alone, in a log without small sizes."""
OTHERWISE = 0.5
"""The largest distance at which a plateau is taken for the ring's."""
UPPER_LIMIT = (
    "slower at length than predicted, and no known cause fits: these GPUs reach one another through the "
    "CPUs' memory, where the prediction is the links' bandwidth and the copies' speed depends on the host"
)
SLOW_START = 3.0
"""Small sizes that take more than this many times the predicted time are remarked on."""
IMPOSSIBLE = 1.05
"""A lower bound at least this many times the measured time proves that the log is of another topology."""
SMALL_BYTES = 1 << 13
LARGE_BYTES = 1 << 24
TAKEN = 3
"""The plateau is that of this many sizes, the largest ones."""
SMALL_WITHIN = 2.5
"""The factor between small sizes' times and a fault's prediction that still fits: hosts differ more there than at
length."""
FITS = 1.15
"""The largest distance at which a fault fits."""
APART = 0.3
"""The least difference in distance between the second fault and the first for which the first is named alone."""


class Diagnosis(str, Enum):
    """CAUSE: one fault. UNDECIDED: several faults fit alike. UNEXPLAINED: slower than predicted, and no fault fits.
    NO_CONCLUSION: no size of the log is small or large enough to judge."""

    HEALTHY = "nothing wrong found"
    CAUSE = "likely cause"
    UNDECIDED = "undecided"
    UNEXPLAINED = "unexplained"
    NO_CONCLUSION = "no conclusion"


@dataclass(frozen=True, slots=True)
class Compared:
    """One size of the log: its measured row, and the plan for the cluster without faults."""

    row: NcclTestsRow
    planned: Planned

    @property
    def latency_bound(self) -> bool:
        """Whether most of the predicted time does not grow with the size."""
        return self.planned.pick.latency_s > 0.5 * self.planned.pick.time_s


@dataclass(frozen=True, slots=True)
class MiddleSize:
    """One size, for several: the one in the middle by `ratio`, the predicted time over the measured (1: as predicted,
    less: slower)."""

    nbytes: int
    measured_s: float
    predicted_s: float

    @property
    def ratio(self) -> float:
        """Predicted over measured time: the measured speed as a share of the predicted."""
        return self.predicted_s / self.measured_s


@dataclass(frozen=True, slots=True)
class Suspect:
    """A fault compared with the log, `at_length` and at small sizes (`at_start`); None where the log has no such sizes.
    `evidence`, `denied`: the log's lines for and against the fault."""

    fault: Fault
    at_length: MiddleSize | None
    at_start: MiddleSize | None
    evidence: tuple[str, ...]
    denied: tuple[str, ...]

    @property
    def distance(self) -> float:
        """The distance of the measured times from the fault's prediction; 1 is the largest deviation that fits, at
        length or at small sizes."""
        length = log(self.at_length.ratio) if self.at_length else 0.0
        start = log(self.at_start.ratio) if self.at_start else 0.0
        within = self.fault.slower if length < 0 and self.fault.slower else self.fault.within
        far = hypot(length / log(within), start / log(SMALL_WITHIN))
        return max(far, DOUBT) if self.fault.slower and self.at_start is None else far

    @property
    def fits(self) -> bool:
        """Whether the fault explains the measured times."""
        return self.distance <= FITS


@dataclass(frozen=True, slots=True)
class Explanation:
    """`at_length`, `at_start`: the cluster without faults; `suspects`: the likeliest first; `algorithm`: where the
    times are those of another algorithm than NCCL's pick."""

    log: Log
    cluster: Cluster
    rows: tuple[Compared, ...]
    at_length: MiddleSize | None
    at_start: MiddleSize | None
    verdict: Diagnosis
    suspects: tuple[Suspect, ...] = ()
    algorithm: str = ""
    remarks: tuple[str, ...] = ()


def explain(nccl_log: Log, cluster: Cluster) -> Explanation:
    """The log's rows beside the cluster's predictions, and the verdict. ValueError where the cluster has another
    number of ranks than the log."""
    if nccl_log.ranks and nccl_log.ranks != cluster.ranks:
        raise ValueError(
            f"{nccl_log.path}: has {nccl_log.ranks} ranks; expected {cluster.ranks}, as {cluster.name} has"
        )
    forced = _forced(nccl_log)
    plan = ClusterPlan(cluster, **forced)
    rows = tuple(Compared(row, plan.row(nccl_log.collective, row.nbytes)) for row in nccl_log.rows)
    large, small = _large(rows), [c for c in rows if c.row.nbytes <= SMALL_BYTES]
    at_length, at_start = _beside(large, _picked), _beside(small, _picked)
    remarks = tuple(_remarks(nccl_log, cluster, rows, at_start))
    if at_length is None and at_start is None:
        return Explanation(nccl_log, cluster, rows, None, None, Diagnosis.NO_CONCLUSION, remarks=remarks)
    beside = at_length or at_start
    ratio = beside.ratio if beside else 1.0
    least = 1 / SLOW_START if at_length is None else WELL_COPIED if _copied(cluster) else WELL
    found = Explanation(nccl_log, cluster, rows, at_length, at_start, Diagnosis.HEALTHY, remarks=remarks)
    if ratio >= (max(SLOWED, least) if nccl_log.debug else least):
        return found
    suspects = _suspects(nccl_log, cluster, forced, large, small)
    if ratio >= least and not any(s.evidence for s in suspects):
        return found
    other = _as_ring(large)
    if other and other[1] <= min((s.distance for s in suspects), default=inf) and not any(s.evidence for s in suspects):
        return replace(found, algorithm=other[0])
    verdict, kept = _judged(suspects)
    if verdict is Diagnosis.UNEXPLAINED and _copied(cluster) and at_start and at_start.ratio >= OTHERWISE:
        return replace(found, remarks=(*remarks, UPPER_LIMIT))
    return replace(found, verdict=verdict, suspects=kept)


def _large(rows: Sequence[Compared]) -> Sequence[Compared]:
    return [c for c in rows if c.row.nbytes >= LARGE_BYTES and not c.latency_bound][-TAKEN:]


def _picked(compared: Compared) -> Estimate:
    return compared.planned.pick


def _beside(rows: Sequence[Compared], predicted: Callable[[Compared], Estimate]) -> MiddleSize | None:
    found = sorted(
        (MiddleSize(c.row.nbytes, c.row.time_s, predicted(c).time_s) for c in rows), key=lambda beside: beside.ratio
    )
    return found[len(found) // 2] if found else None


def _as_ring(large: Sequence[Compared]) -> tuple[str, float] | None:
    """The ring and its distance (as `Suspect.distance`), where NCCL picks another algorithm but the ring's plateau was
    measured."""

    def ring(c: Compared) -> Estimate:
        return next((e for e in c.planned.candidates if (e.algorithm, e.protocol) == RING), _picked(c))

    beside = _beside(large, ring)
    distance = abs(log(beside.ratio)) / log(HARDWARE) if beside else inf
    return ("/".join(RING), distance) if distance <= OTHERWISE else None


def _forced(nccl_log: Log) -> dict[str, str]:
    """The algorithm and the protocol that NCCL's variables demand, where a variable names exactly one."""
    out = {}
    for what, variable, known in (("algorithm", "NCCL_ALGO", ALGORITHMS), ("protocol", "NCCL_PROTO", PROTOCOLS)):
        if (name := named(nccl_log.debug.environment.get(variable, ""))) in known:
            out[what] = name
    return out


def _suspects(
    nccl_log: Log, cluster: Cluster, forced: dict[str, str], large: Sequence[Compared], small: Sequence[Compared]
) -> list[Suspect]:
    """Every fault that would slow the cluster, compared with the log; the likeliest first. A fault that fits is left
    out where its lower bound is above a measured time, unless the log has evidence for it."""
    out = []
    some = small[:: max(len(small) // TAKEN, 1)]
    for fault in faults(cluster):
        plan = ClusterPlan(fault.cluster, **forced)

        def predicted(c: Compared, plan: ClusterPlan = plan) -> Estimate:
            return plan.candidates(nccl_log.collective, c.row.nbytes)[1]

        slowed = (predicted(c).time_s > c.planned.pick.time_s / SLOWED for c in large or some)
        if any(slowed):
            at_length, at_start = _beside(large, predicted), _beside(some, predicted)
            evidence, denied = fault.evidence_for(nccl_log.debug), fault.evidence_against(nccl_log.debug)
            suspect = Suspect(fault, at_length, at_start, evidence, denied)
            tried = large if suspect.fits and not evidence else ()
            if not any(_impossible(plan.row(nccl_log.collective, c.row.nbytes), c.row) for c in tried):
                out.append(suspect)
    return sorted(out, key=lambda s: (not s.evidence, bool(s.denied), s.distance))


def _impossible(planned: Planned, row: NcclTestsRow) -> bool:
    """Whether the row was quicker than the bound of its planned cluster."""
    return planned.bound.time_s > IMPOSSIBLE * row.time_s


def _judged(suspects: Sequence[Suspect]) -> tuple[Diagnosis, tuple[Suspect, ...]]:
    """The verdict and its suspects, of each kind the nearest."""
    nearest: dict[str, Suspect] = {}
    for s in suspects:
        nearest.setdefault(s.fault.key, s)
    if confirmed := [s for s in nearest.values() if s.evidence]:
        return Diagnosis.CAUSE, tuple(confirmed)
    left = [s for s in nearest.values() if not s.denied]
    fitting = [s for s in left if s.fits and s.distance <= left[0].distance + APART]
    if not fitting:
        return Diagnosis.UNEXPLAINED, tuple(left[:TAKEN])
    return (Diagnosis.CAUSE if len(fitting) == 1 else Diagnosis.UNDECIDED), tuple(fitting)


def _copied(cluster: Cluster) -> bool:
    """Whether a kernel or a CPU copies data in a cluster without faults."""
    if cluster.nodes > 1:
        return cluster.fabric is not None and not cluster.fabric.rdma
    paths, gpus = Paths(cluster.machine), range(len(cluster.machine.gpus))
    return not any(p2p(paths, a, b).applies for a in gpus for b in gpus if a != b)


def _remarks(nccl_log: Log, cluster: Cluster, rows: Sequence[Compared], at_start: MiddleSize | None) -> Iterator[str]:
    yield from nccl_log.inferred
    if wrong := next((row for row in nccl_log.rows if row.wrong), None):
        yield (
            f"WRONG RESULTS: line {wrong.line} has {wrong.wrong} wrong elements at {wrong.nbytes} B: memory or a link "
            "corrupts data: repair that before speed"
        )
    if at_start and at_start.ratio < 1 / SLOW_START:
        yield (
            f"small sizes take {1 / at_start.ratio:.1f} times the predicted: look at CPU frequency, at other programs "
            "on these cores, and at the fabric's set-up"
        )
    if over := next((c for c in reversed(rows) if _impossible(c.planned, c.row)), None):
        yield (
            f"{over.row.nbytes} B took less time than the topology allows: the log is from a larger machine; check "
            "--topology, --nics and --nodes"
        )
    ran = {r.model for r in nccl_log.ran if r.model}
    for model in sorted({cluster.machine.devices[g].model for g in cluster.machine.gpus} - {""}):
        if ran and not any(model.split()[0].lower() in name.lower() for name in ran):
            yield f"the log ran on {', '.join(sorted(ran))}; the topology has {model}: is it the right one?"
    for name in sorted({"NCCL_ALGO", "NCCL_PROTO"} & nccl_log.debug.environment.keys()):
        yield f"{name}={nccl_log.debug.environment[name]} was set" + (
            "" if _forced(nccl_log) else ": not taken into account"
        )
    if "no_nvls" in nccl_log.debug.signs and Pattern.NVLS in ClusterPlan(cluster).graphs:
        seen = nccl_log.debug.signs["no_nvls"]
        yield f"line {seen.line}: {seen.text}; the prediction is with NVLink SHARP: is Fabric Manager running?"
    for note in cluster.machine.notes:
        if note.kind is NoteKind.TRAP:
            yield f"trap in the topology: {note.about}: {note.text}"
