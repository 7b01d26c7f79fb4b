"""`ringtree plan` without a cluster: what ranks of one machine choose, and why."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from ringtree.algorithms import serving
from ringtree.bench.machine import usable_cores
from ringtree.bench.predicted import shared_memory
from ringtree.bench.record import bandwidths
from ringtree.cli import table
from ringtree.cli.arguments.subject import given
from ringtree.cli.options.planning.plan import OF_CLUSTERS
from ringtree.files.replacing import replace_with_json
from ringtree.ir.collective import collective as find_collective
from ringtree.ir.units import count, duration, size
from ringtree.plan import Candidate, candidates, choose, nested_candidates, shortlist, steps_for
from ringtree.plan.nesting import NESTED, Options
from ringtree.price import CostParameters, SharedMemory
from ringtree.price.memory.bound import bound_s, least_fetched
from ringtree.runtime import tuned
from ringtree.runtime.processor import cpu

MOST_RANKS = 256
PARTS = {
    "call_s": "call",
    "latency_s": "synchronizing",
    "copy_s": "copying",
    "fetch_s": "reading",
    "reduce_s": "reducing",
}
"""Heading of every part of a predicted time."""
BOTTLENECKS = {
    "call_s": "call overhead",
    "latency_s": "synchronization of ranks",
    "copy_s": "copying own data",
    "fetch_s": "reading peers' data",
    "reduce_s": "reducing",
}
WIDTHS = (13, 20, 11, *(10,) * len(PARTS), 13, 13, 9)


class PlanningTarget(NamedTuple):
    """A machine to plan for: cost parameters, cores, its name, where the parameters come from, and whether it is this
    one, whose NUMA nodes are known."""

    parameters: CostParameters
    cores: int
    words: str
    source: str
    here: bool = True


class PlannedSize(NamedTuple):
    """One size: all candidates, fastest first; the chosen one; and the lower bound of the time in seconds."""

    nbytes: int
    found: Sequence[Candidate]
    chosen: Candidate
    bound_s: float


def run(args: argparse.Namespace, sizes: Sequence[int]) -> int:
    """Prints the choice of algorithm on this machine per size. Returns the exit code."""
    ranks = 2 if args.ranks is None else args.ranks
    if not 1 <= ranks <= MOST_RANKS:
        raise ValueError(f"-n/--ranks {ranks}: expected 1 to {MOST_RANKS} ranks on this machine")
    if strange := given(args, OF_CLUSTERS):
        raise ValueError(f"{strange[0]} applies to a cluster: expected --topology NAME|FILE as well")
    find_collective(args.collective)
    target = _target(args.topology)
    memory = shared_memory(ranks, target.parameters)
    if not target.here:
        memory = replace(memory, cores=target.cores, node_of=(), speed=1.0)
    rows = [_row(args.collective, ranks, nbytes, memory, args.all) for nbytes in sizes]
    for line in lines(args.collective, ranks, target, memory, rows, every=args.all or len(rows) == 1):
        print(line)
    if args.json:
        records = [_record(args.collective, ranks, row) for row in rows]
        document = {"collective": args.collective, "ranks": ranks, "figures": target.source, "rows": records}
        replace_with_json(args.json, document)
    return 0


def _target(topology: str | None) -> PlanningTarget:
    """This machine, with its tuned file where there is one; or the machine of the tuned file `topology`."""
    if topology is not None:
        found = tuned.read(Path(topology), anywhere=True)
        here = {"cpu": found.cpu, "cores": found.cores} == tuned.this_machine()
        cores = usable_cores() if here else found.cores
        return PlanningTarget(found.parameters, cores, found.cpu, f"{found.parameters.source} ({topology})", here)
    parameters = tuned.parameters_here()
    if parameters is not None:
        return PlanningTarget(parameters, usable_cores(), cpu(), f"{parameters.source} ({tuned.location()})")
    parameters = shared_memory(1).parameters
    return PlanningTarget(
        parameters, usable_cores(), cpu(), f"{parameters.source}; `ringtree tune` measures this machine"
    )


def _row(collective: str, ranks: int, nbytes: int, memory: SharedMemory, every: bool) -> PlannedSize:
    """The prediction for one size. `every`: also algorithms that calls do not consider."""
    choice = choose(collective, ranks, nbytes, memory=memory)
    nested = nested_candidates(collective, ranks, nbytes, memory)
    names = tuple(serving(collective)) if every else shortlist(collective, ranks)
    names = tuple(name for name in names if not (nested and name == NESTED))
    found = [*candidates(names, collective, ranks, nbytes, memory), *nested]
    chosen = next(c for c in found if (c.algorithm, _options(c)) == (choice.algorithm, choice.options))
    found = sorted(found, key=lambda c: (c.quote.seconds, c is not chosen))
    bound = min(bound_s(collective, ranks, nbytes, memory), chosen.quote.seconds)  # which may be corrected below it
    return PlannedSize(nbytes, found, chosen, bound)


def _options(candidate: Candidate) -> Options:
    """The options of a Choice: of an algorithm that is nested in NUMA nodes, else ()."""
    return candidate.steps.options[:3] if candidate.label != candidate.algorithm else ()


def lines(
    collective: str,
    ranks: int,
    target: PlanningTarget,
    memory: SharedMemory,
    rows: Sequence[PlannedSize],
    every: bool = False,
) -> Iterator[str]:
    """Yields the table and the conclusions from it. `every`: all candidates of each size."""
    where = f"{count(target.cores, 'core')} of {target.words}"
    if nodes := len(set(memory.node_of)):
        where += f", on {count(nodes, 'NUMA node')}"
    yield f"# {collective} over {count(ranks, 'rank')} on {where}, predicted"
    yield f"# by {target.source}"
    yield "#"
    names = ("size (B)", "algorithm", "time (us)", *(f"{n} (us)" for n in PARTS.values()))
    widest = max(len(c.label) + 2 for row in rows for c in (row.found if every else (row.chosen,)))
    parts = (max(w, len(n) + 2) for w, n in zip(WIDTHS[3:], names[3:], strict=False))
    widths = (WIDTHS[0], max(WIDTHS[1], widest), WIDTHS[2], *parts, *WIDTHS[-3:])
    names = (*names, "algbw (GB/s)", "busbw (GB/s)", "of bound")
    yield f"{table.head(names, widths)}  bottleneck"
    for row in rows:
        for candidate in row.found if every else (row.chosen,):
            mark = "  <- chosen" if every and candidate is row.chosen else ""
            yield _line(collective, ranks, row, candidate, widths) + mark
    yield "#"
    conclusions = _explained(collective, ranks, memory, rows[0], target) if len(rows) == 1 else _runs(rows)
    for line in conclusions:
        yield f"# {line}"


def _line(collective: str, ranks: int, row: PlannedSize, candidate: Candidate, widths: Sequence[int]) -> str:
    p = candidate.quote
    algbw, busbw = _bandwidths(collective, ranks, row.nbytes, p.seconds)
    ratio = f"{row.bound_s / p.seconds:.0%}" if p.seconds else ""
    times = [table.microseconds(t) for t in (p.seconds, *(getattr(p, name) for name in PARTS))]
    cells = (row.nbytes, candidate.label, *times, f"{algbw:.2f}", f"{busbw:.2f}", ratio)
    return f"{table.row(cells, widths)}  {_bottleneck(candidate)}"


def _bandwidths(collective: str, ranks: int, nbytes: int, time_s: float) -> tuple[float, float]:
    return bandwidths(collective, ranks, nbytes, time_s * 1e6)


def _bottleneck(candidate: Candidate) -> str:
    return BOTTLENECKS[max(PARTS, key=lambda name: getattr(candidate.quote, name))]


def _explained(
    collective: str, ranks: int, memory: SharedMemory, row: PlannedSize, target: PlanningTarget
) -> Iterator[str]:
    """Yields why the algorithm is chosen, how its schedule is cut, and the lower bound."""
    c, p = row.chosen, row.chosen.quote
    others = [other for other in row.found if other is not c]
    if others:
        more = others[0].quote.seconds / p.seconds - 1
        beside = (
            f"{more:.0%} longer"
            if more >= 0.005
            else "as long"
            if more > -0.005
            else f"{-more:.0%} less (not considered by calls)"
        )
        yield f"{c.label} is chosen: {duration(p.seconds)}; next, {others[0].label} takes {beside}"
    else:
        yield f"{c.algorithm} is chosen: no other algorithm serves {collective}"
    root = 0 if find_collective(collective).rooted else None
    steps = steps_for(c.algorithm, collective, ranks, root, row.nbytes, memory, _options(c))
    cut = f"cut by {steps}" if steps else "not cut"
    yield f"{cut}; staged through {memory.slots} buffers of {size(memory.slot_bytes)} per rank"
    if ranks > memory.cores:
        yield f"{ranks} ranks share {count(memory.cores, 'core')}"
    total = least_fetched(collective, ranks)[0] * row.nbytes
    yield (
        f"lower bound {duration(row.bound_s)} ({row.bound_s / p.seconds:.0%} of the time): "
        f"one call with one synchronization, or reading {size(total)} in all from peers; bottleneck: {_bottleneck(c)}"
    )


def _runs(rows: Sequence[PlannedSize]) -> Iterator[str]:
    """Yields a line per run of sizes with the same algorithm."""
    for algorithm, run in groupby(rows, key=lambda row: row.chosen.label):
        mine = list(run)
        yield f"{algorithm} from {size(mine[0].nbytes)} to {size(mine[-1].nbytes)}"


def _record(collective: str, ranks: int, row: PlannedSize) -> dict[str, Any]:
    p = row.chosen.quote
    algbw, busbw = _bandwidths(collective, ranks, row.nbytes, p.seconds)
    return {
        "nbytes": row.nbytes,
        "algorithm": row.chosen.algorithm,
        "label": row.chosen.label,
        "protocol": "shm",
        "channels": row.chosen.steps.channels,
        "steps": str(row.chosen.steps),
        "time_us": p.seconds * 1e6,
        **{f"{name[:-2]}_us": getattr(p, name) * 1e6 for name in PARTS},
        "algbw_GBps": algbw,
        "busbw_GBps": busbw,
        "bound_fraction": row.bound_s / p.seconds,
        "bottleneck": _bottleneck(row.chosen),
        "candidates": [
            {"algorithm": c.algorithm, "label": c.label, "time_us": c.quote.seconds * 1e6} for c in row.found
        ],
    }
