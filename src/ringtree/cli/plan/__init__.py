"""A collective on a cluster, planned: `ringtree plan`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from ringtree.cli.arguments.byte_sizes import sizes_of
from ringtree.cli.arguments.cluster import cluster as cluster_of
from ringtree.cli.arguments.destination import check_destinations
from ringtree.cli.arguments.subject import given
from ringtree.cli.plan import records
from ringtree.cli.plan import table as plan_table
from ringtree.draw import machine_words
from ringtree.files.replacing import replace_with_json, replacing
from ringtree.ir.units import size
from ringtree.machines.machine import NoteKind
from ringtree.machines.nics import as_shown
from ringtree.nccl.cluster_plan import NOTEWORTHY, ClusterPlan, Planned
from ringtree.nccl.estimate import Estimate
from ringtree.nccl.files import graph_xml, tuner_csv
from ringtree.nccl.tuning.variables import named
from ringtree.runtime import tuned

HERE = "ringtree.cli.plan.here"
"""The module that plans for this machine, loaded where no cluster is named."""
USUAL = ("8", "8G", 2.0)
"""The first size, the last and the factor between them; over hosts others."""
OVER_HOSTS = "ringtree.cli.plan.over_hosts"
"""The module that plans for ranks on several hosts."""


def run(args: argparse.Namespace) -> int:
    """Prints predicted times per size. Returns the exit code; ValueError for inconsistent options."""
    check_destinations(args, args.json, args.export_graph, args.export_tuner)
    if args.hosts is not None or args.tuned:
        planned: int = import_module(OVER_HOSTS).run(args)
        return planned
    if over := given(args, ("rate", "latency", "beside")):
        raise ValueError(f"{over[0]} describes a network between hosts: expected --hosts or --tuned as well")
    sizes = sizes_of(args, USUAL)
    if args.topology is None or tuned.is_tuned(Path(args.topology)):
        code: int = import_module(HERE).run(args, sizes)
        return code
    if args.ranks is not None:
        raise ValueError(
            f"-n/--ranks counts ranks on this machine, got {args.ranks}; for a cluster use --nodes 2 (and --gpus)"
        )
    plan = ClusterPlan(cluster_of(args), args.model or "transport", _named(args.algorithm), _named(args.protocol))
    rows = list(plan.rows(args.collective, sizes))
    tuner = _tuner(plan, rows) if args.export_tuner else ()
    for line in plan_table.lines(plan, rows, every=args.all):
        print(line)
    if args.json:
        record = {
            "collective": args.collective,
            "cluster": records.cluster(plan.cluster),
            "cut": records.cut(rows[-1].bound),
            "rows": [_record(plan, row, e) for row in rows for e in (row.candidates if args.all else (row.pick,))],
            "not_known": list(machine_words.notes(plan.cluster.machine, NoteKind.UNKNOWN)),
            "traps": list(machine_words.notes(plan.cluster.machine, NoteKind.TRAP)),
            "far_from_bound": plan.shortfall(rows[-1]),
        }
        replace_with_json(args.json, record)
    if args.export_graph:
        with replacing(args.export_graph) as file:
            file.write(graph_xml.write(plan.graphs, as_shown(plan.cluster).machine).encode())
    if args.export_tuner:
        with replacing(args.export_tuner) as file:
            file.write(tuner_csv.write(tuner).encode())
        print(f"# {args.export_tuner}: {_rules(tuner)}")
    return 0


def _named(text: str | None) -> str | None:
    return text and named(text)


def _tuner(plan: ClusterPlan, rows: Sequence[Planned]) -> tuple[tuner_csv.TunerRow, ...]:
    """The rows for NCCL's tuner plugin: at each size the candidate that is noteworthily quicker than NCCL's pick, or,
    where an algorithm or a protocol is forced, the quickest one of it."""
    forced = plan.algorithm or plan.protocol
    choices = []
    for row in rows:
        best = row.candidates[0] if forced else row.quicker
        what = (best.algorithm, best.protocol, best.channels) if best else ()
        choices.append(tuner_csv.TunerChoice(row.nbytes, *what))
    return tuner_csv.rows(rows[0].collective, choices, plan.cluster.nodes, plan.cluster.ranks)


def _rules(rows: Sequence[tuner_csv.TunerRow]) -> str:
    """The tuner's rows in words: `nvls/simple from 2.83 MiB to 5.66 MiB; elsewhere NCCL's own choice`."""
    if not rows:
        return f"no rule, for no candidate is {1 - NOTEWORTHY:.0%} faster than NCCL's own choice"
    found = [f"{r.algorithm}/{r.protocol} from {size(r.min_bytes)} to {size(r.max_bytes)}" for r in rows]
    return f"{', '.join(found)}; elsewhere NCCL's own choice"


def _record(plan: ClusterPlan, row: Planned, estimate: Estimate) -> dict[str, Any]:
    algbw, busbw = row.bandwidths_GBps(estimate)
    around = plan.interval(row, estimate)
    return {
        "nbytes": row.nbytes,
        "algorithm": estimate.algorithm,
        "protocol": estimate.protocol,
        "channels": estimate.channels,
        "time_us": estimate.time_s * 1e6,
        "low_us": around and around.low_s * 1e6,
        "high_us": around and around.high_s * 1e6,
        "algbw_GBps": algbw,
        "busbw_GBps": busbw,
        "bound_us": row.bound.time_s * 1e6,
        "bound_fraction": row.bound_fraction(estimate),
        "bound_bottleneck": row.bound.bottleneck,
        "bottleneck": estimate.bottleneck,
        "unknowns": [part.key for part in around.parts] if around else [],
        "picked": estimate is row.pick,
    }
