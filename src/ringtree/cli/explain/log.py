"""`ringtree explain`: an nccl-tests log beside what is predicted, as a table in nccl-tests' manner, then the verdict in
words; and as JSON."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from ringtree.cli import table, terminal
from ringtree.cli.arguments.cluster import cluster as cluster_of
from ringtree.cli.arguments.destination import check_destinations
from ringtree.cli.plan import records
from ringtree.cli.plan.table import describe
from ringtree.files.replacing import replace_with_json
from ringtree.ir.units import bandwidth, duration, size
from ringtree.machines.files.reading import find
from ringtree.nccl import releases
from ringtree.nccl.explain import Diagnosis, Explanation, Suspect, explain
from ringtree.nccl.files import nccl_tests
from ringtree.nccl.files.nccl_tests import Log
from ringtree.nccl.link_speeds import runs_rccl
from ringtree.nccl.matching import Compared, MiddleSize


def run(args: argparse.Namespace) -> int:
    """Prints the comparison of a log with its prediction, and the likely cause. Returns the exit code."""
    if args.topology is None:
        raise ValueError(
            f"no --topology: expected a name from `ringtree topo list`, or a topology file, for the log {args.log} "
            "(it is no flight recorder's dump)"
        )
    check_destinations(args, args.json)
    log = nccl_tests.read(args.log, args.collective or "")
    log = log.of_nodes(len(find(args.topology).gpus), args.nodes)
    assumed = _fill(args, log)
    found = explain(log, cluster_of(args), partial(terminal.counted, "faults"))
    for line in lines(found, assumed):
        print(line)
    if args.json:
        replace_with_json(args.json, record(found))
    return 0


def _fill(args: argparse.Namespace, log: Log) -> list[str]:
    """Sets nodes, GPUs and NCCL's release that only the log has; returns these assumptions as lines."""
    machine, out = find(args.topology), list[str]()
    there, ranks = len(machine.gpus), log.ranks
    if args.nodes is None:
        listed = -(-log.nodes // machine.hosts_of_gpus) if there else 0  # a rack is many hosts
        args.nodes = listed or max(-(-ranks // there), 1) if there else 1
        out.append(f"nodes: {args.nodes}, from the log's {'hosts' if log.nodes else f'{ranks} ranks'}")
    each = ranks // args.nodes if args.nodes > 0 and ranks % args.nodes == 0 else 0
    if not args.gpus and 0 < each < there:
        host = next((r.host for r in log.ran), "")
        named = sorted({r.device for r in log.ran if r.host == host})
        if len(named) != each or named[-1] >= there or machine.hosts_of_gpus > 1:
            named = list(range(each))
        args.gpus = "".join(f"{gpu}," for gpu in named)
        out.append(f"GPUs of each node: {', '.join(map(str, named))} (assumed; --gpus names others)")
    if args.nccl is None and log.debug.release and not runs_rccl(machine):
        args.nccl = releases.words(log.debug.release)
        out.append(f"NCCL {args.nccl}, from the log")
    return out


HEADER = ("size (B)", "measured (us)", "measured busbw", "predicted (us)", "interval", "predicted busbw",
          "of predicted", "of bound")  # fmt: skip
WIDTHS = (13, 14, 15, 15, 11, 16, 13, 9)
COMPARED = (
    "busbw: bus bandwidth in GB/s, nccl-tests' busbw; of predicted: measured busbw over predicted busbw, the same as "
    "predicted time over measured time"
)


def lines(found: Explanation, assumed: Sequence[str] = ()) -> Iterator[str]:
    """The whole explanation as lines. `assumed`: the facts taken from the log to name the cluster."""
    log = found.log
    yield f"# {log.collective} over {found.cluster.ranks} ranks: {log.path} compared with the prediction"
    yield f"# on {describe(found.cluster)}"
    for text in assumed:
        yield f"# {text}"
    yield f"# {COMPARED}"
    yield "#"
    yield f"{table.head(HEADER, WIDTHS)}  bottleneck"
    for row in found.rows:
        yield _row(found, row)
    yield ""
    yield from _summary(found)
    yield ""
    yield from _verdict(found)
    for remark in found.remarks:
        yield f"note: {remark}"


def _busbw_GBps(found: Explanation, nbytes: int, time_s: float) -> float:
    return nbytes / time_s / 1e9 * found.rows[0].planned.bus_factor


def _row(found: Explanation, compared: Compared) -> str:
    row, pick = compared.row, compared.planned.pick
    cells = (
        row.nbytes, table.microseconds(row.time_s), f"{_busbw_GBps(found, row.nbytes, row.time_s):.2f}",
        table.microseconds(pick.time_s), table.spread(compared.interval.low_s, pick.time_s, compared.interval.high_s),
        f"{_busbw_GBps(found, row.nbytes, pick.time_s):.2f}",
        f"{pick.time_s / row.time_s:.0%}{'>' if compared.above else '<' if compared.below else ' '}",
        f"{compared.planned.bound.time_s / row.time_s:.0%}",
    )  # fmt: skip
    return f"{table.row(cells, WIDTHS)}  {'latency' if compared.latency_bound else pick.bottleneck}"


def _summary(found: Explanation) -> Iterator[str]:
    above, below = sum(c.above for c in found.rows), sum(c.below for c in found.rows)
    inside = len(found.rows) - above - below
    yield f"in the interval: {inside} of {len(found.rows)} sizes" + "".join(
        f", {sizes} {words}" for sizes, words in ((below, "slower"), (above, "faster")) if sizes
    )
    last = [c for c in found.rows if c.latency_bound]
    if last:
        yield f"up to {size(last[-1].row.nbytes)} most of the time is latency, which is normal"
    if found.at_length:
        yield f"large sizes: {_length(found, found.at_length)}: {found.at_length.ratio:.0%} of predicted"
        best = max(found.rows, key=lambda c: c.row.nbytes)
        of_bound = best.planned.bound.time_s / best.row.time_s
        yield f"of bound: {of_bound:.0%} at {size(best.row.nbytes)}; the bound is {best.planned.bound.bottleneck}"
    else:
        yield "large sizes: no size in the log is large enough to judge"
    if found.at_start:
        yield f"small sizes: {_start(found.at_start)}: {1 / found.at_start.ratio:.2g} times predicted"


def _length(found: Explanation, beside: MiddleSize) -> str:
    measured, predicted = (
        bandwidth(1e9 * _busbw_GBps(found, beside.nbytes, s)) for s in (beside.measured_s, beside.predicted_s)
    )
    return f"{measured} busbw measured at {size(beside.nbytes)}, {predicted} predicted"


def _start(beside: MiddleSize) -> str:
    return f"{duration(beside.measured_s)} measured at {size(beside.nbytes)}, {duration(beside.predicted_s)} predicted"


def _verdict(found: Explanation) -> Iterator[str]:
    verdict = found.verdict
    if verdict is Diagnosis.HEALTHY:
        wrong = any(compared.row.wrong for compared in found.rows)
        yield "no fault of speed found, but wrong results" if wrong else "no fault found"
        if found.algorithm:
            pick = found.rows[-1].planned.pick
            yield (
                f"  this is the speed of {found.algorithm}; the model of NCCL picks {pick.algorithm}/{pick.protocol}: "
                "an older NCCL, NCCL_ALGO, NCCL_NVLS_ENABLE=0 or missing multicast (NVLS off) may have prevented that "
                "choice"
            )
    elif verdict is Diagnosis.FASTER:
        yield from _faster(found)
    elif verdict is Diagnosis.FAR_BELOW:
        yield from _far_below(found)
    elif verdict is Diagnosis.NO_CONCLUSION:
        yield "no conclusion: expected sizes up to 8 KiB, or from 16 MiB on"
    elif verdict is Diagnosis.CAUSE:
        yield f"likely cause: {found.suspects[0].fault.what}"
        yield from _evidence(found, found.suspects[0])
        for suspect in found.suspects[1:]:
            yield f"and: {suspect.fault.what}"
            yield from _evidence(found, suspect)
    else:
        if verdict is Diagnosis.UNDECIDED:
            yield f"undecided: slower than predicted, and {len(found.suspects)} causes fit the figures equally well"
        else:
            yield "unexplained: slower than predicted, and no cause known here fits the figures" + (
                "; the nearest ones are" if found.suspects else ""
            )
        for suspect in found.suspects:
            yield f"candidate: {suspect.fault.what}"
            yield from _evidence(found, suspect)
        if not found.log.debug:
            yield "run the test again with NCCL_DEBUG=INFO: the paths that NCCL logs decide most of these cases"


def _faster(found: Explanation) -> Iterator[str]:
    beside = found.at_length or found.at_start
    assert beside is not None
    yield (
        f"faster than predicted: {beside.ratio:.0%} of the prediction at {size(beside.nbytes)}, above its interval. "
        "No fault, but the cluster or the measurement differs from what was given; reasons may be:"
    )
    for reason in found.reasons:
        fits = reason.match.at_length if reason.fits and reason.match else None
        yield f"{'fits' if fits else 'possible'}: {reason.what}"
        if fits:
            yield f"  evidence at large sizes: {_length(found, fits)} with this"
        yield f"  to confirm: {reason.check}"


def _far_below(found: Explanation) -> Iterator[str]:
    beside = found.at_length or found.at_start
    assert beside is not None
    yield f"far below the prediction: {beside.ratio:.0%} of it at {size(beside.nbytes)}"
    for suspect in found.suspects:
        yield f"candidate: {suspect.fault.what}"
        yield from _evidence(found, suspect)
    if not found.suspects:
        yield "  no candidate explains it: no fault that the model knows here brings the prediction to these times"
    yield (
        "  to decide: the copies' speed itself (`ringtree tune --device cuda`, or CUDA's p2pBandwidthLatencyTest), the "
        "PCIe links' width and speed under load (`lspci -vv`, LnkSta), and NCCL_DEBUG=INFO (`via SHM` or `via P2P`)"
    )


def _evidence(found: Explanation, suspect: Suspect) -> Iterator[str]:
    if suspect.at_length:
        yield f"  evidence at large sizes: {_length(found, suspect.at_length)} with this fault{_most(suspect)}"
    if suspect.at_start:
        yield f"  evidence at small sizes: {_start(suspect.at_start)} with this fault"
    for line in suspect.evidence:
        yield f"  evidence in the log: {line}"
    if suspect.evidence and not suspect.fits:
        yield "  but the figures differ from those predicted with this fault: there may be another fault"
    yield f"  to confirm: {suspect.fault.check}"
    yield f"  remedy: {suspect.fault.remedy}"


def _most(suspect: Suspect) -> str:
    return " at most" if suspect.fault.slower else ""


def record(found: Explanation) -> dict[str, Any]:
    """The explanation as JSON."""
    return {
        "collective": found.log.collective,
        "ranks": found.cluster.ranks,
        "cluster": records.cluster(found.cluster),
        "cut": records.cut(found.rows[-1].planned.bound),
        "verdict": found.verdict.value,
        "algorithm": found.algorithm,
        "at_length": _beside(found, found.at_length),
        "at_small_sizes": _beside(found, found.at_start),
        "causes": [
            {
                "key": s.fault.key,
                "what": s.fault.what,
                "at_length": _beside(found, s.at_length),
                "at_small_sizes": _beside(found, s.at_start),
                "fits": s.fits,
                "said": list(s.evidence),
                "check": s.fault.check,
                "remedy": s.fault.remedy,
            }
            for s in found.suspects
        ],
        "reasons": [{"key": r.key, "what": r.what, "fits": r.fits, "check": r.check} for r in found.reasons],
        "notes": list(found.remarks),
        "rows": [
            {
                "nbytes": c.row.nbytes,
                "measured_us": c.row.time_s * 1e6,
                "measured_busbw_GBps": _busbw_GBps(found, c.row.nbytes, c.row.time_s),
                "predicted_us": c.planned.pick.time_s * 1e6,
                "low_us": c.interval.low_s * 1e6,
                "high_us": c.interval.high_s * 1e6,
                "predicted_busbw_GBps": _busbw_GBps(found, c.row.nbytes, c.planned.pick.time_s),
                "bound_us": c.planned.bound.time_s * 1e6,
                "bound_bottleneck": c.planned.bound.bottleneck,
                "latency_bound": c.latency_bound,
                "bottleneck": c.planned.pick.bottleneck,
            }
            for c in found.rows
        ],
    }


def _beside(found: Explanation, beside: MiddleSize | None) -> dict[str, float] | None:
    if beside is None:
        return None
    return {
        "nbytes": beside.nbytes,
        "measured_us": beside.measured_s * 1e6,
        "predicted_us": beside.predicted_s * 1e6,
        "measured_busbw_GBps": _busbw_GBps(found, beside.nbytes, beside.measured_s),
        "predicted_busbw_GBps": _busbw_GBps(found, beside.nbytes, beside.predicted_s),
    }
