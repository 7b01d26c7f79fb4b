"""What a collective should reach on a machine or a cluster, by which algorithm, and how far that is from the possible.

    ringtree plan all_reduce --topology dgx-h100 --nodes 4 --bytes 8:8G
    ringtree plan all_gather --topology gcp-a3-high --nodes 2 --bytes 1M,64M,1G --all
    ringtree plan all_reduce --topology topo.xml --gpus 4 --bytes 64M:1G --json rows.json
    ringtree plan all_reduce --topology rtx4090-pcie --nodes 2 --nics 1x100Gb --fabric roce --bytes 1M
    ringtree plan all_reduce -n 4 --bytes 1M                   on this machine, by ringtree itself

With --topology: nccl-tests' table, without GPUs. Bytes are those of the whole vector. The algorithm, protocol and
channels are those NCCL picks by its own estimate; the time is our model's (--model nccl: NCCL's estimate). The last
columns say how much of the possible that is, and what holds it up. Without --topology: what a Communicator of -n
ranks chooses here, and why.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ringtree.cli import cluster_options, plan_here, plan_table
from ringtree.cli.byte_sizes import byte_sizes
from ringtree.cli.destination import check_destination
from ringtree.cli.subject import THEIRS
from ringtree.formats.replacing import replace_with_json, replacing
from ringtree.machines.nics import as_shown
from ringtree.nccl.cluster_plan import ClusterPlan, Planned
from ringtree.nccl.estimate import Estimate
from ringtree.nccl.files import graph_xml, tuner_csv
from ringtree.nccl.tuning.variables import named
from ringtree.runtime import tuned


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("collective", metavar="COLLECTIVE", help="all_reduce, all_gather, reduce_scatter, broadcast, reduce, …")
    add("--bytes", default="8:8G", metavar="B", help="8:8G (doubling), 8:8G:4 (times 4), or 1M,64M (default 8:8G)")
    plan_here.add_arguments(parser)
    cluster_options.add_arguments(parser)
    add("--model", default="transport", choices=("transport", "nccl"), help="whose time (default transport: ours)")
    add("--algorithm", metavar="A", help="only this one, as NCCL_ALGO forces it: ring, tree, nvls, …")
    add("--protocol", metavar="P", help="only this one, as NCCL_PROTO forces it: ll, ll128 or simple")
    add("--all", action="store_true", help="every candidate, not the pick alone")
    add("--json", type=Path, metavar="FILE", help="write the rows as JSON")
    add("--export-graph", type=Path, metavar="FILE", help="write the rings and trees as NCCL_GRAPH_FILE reads them")
    add(
        "--export-tuner", type=Path, metavar="FILE", help="write the quickest choices as NCCL's tuner plugin reads them"
    )


def run(args: argparse.Namespace) -> int:
    args.collective = THEIRS.get(args.collective, args.collective)
    written = [path for path in (args.json, args.export_graph, args.export_tuner) if path]
    for path in written:
        check_destination(path, *(other for other in written if other is not path))
    if args.topology is None or tuned.is_tuned(Path(args.topology)):
        return plan_here.run(args)
    if args.ranks is not None:
        raise ValueError(f"-n {args.ranks} is of one machine's memory: with --topology say --nodes and --gpus")
    plan = ClusterPlan(cluster_options.cluster(args), args.model, _named(args.algorithm), _named(args.protocol))
    rows = list(plan.rows(args.collective, byte_sizes(args.bytes)))
    tuner = _tuner(plan, rows) if args.export_tuner else ""
    for line in plan_table.lines(plan, rows, every=args.all):
        print(line)
    if args.json:
        replace_with_json(args.json, {"rows": [_record(row, row.pick) for row in rows]})
    if args.export_graph:
        with replacing(args.export_graph) as file:
            file.write(graph_xml.write(plan.graphs, as_shown(plan.cluster).machine).encode())
    if args.export_tuner:
        with replacing(args.export_tuner) as file:
            file.write(tuner.encode())
    return 0


def _named(text: str | None) -> str | None:
    return text and named(text)


def _tuner(plan: ClusterPlan, rows: Sequence[Planned]) -> str:
    """The quickest candidate of each size, for NCCL's tuner plugin."""
    choices = [
        tuner_csv.Choice(row.nbytes, e.algorithm, e.protocol, e.channels) for row in rows for e in row.candidates[:1]
    ]
    return tuner_csv.write(tuner_csv.rows(rows[0].collective, choices, plan.cluster.nodes, plan.cluster.ranks))


def _record(row: Planned, estimate: Estimate) -> dict[str, Any]:
    algbw, busbw = row.bandwidths_GBps(estimate)
    return {
        "nbytes": row.nbytes,
        "algorithm": estimate.algorithm,
        "protocol": estimate.protocol,
        "channels": estimate.channels,
        "time_us": estimate.time_s * 1e6,
        "algbw_GBps": algbw,
        "busbw_GBps": busbw,
        "bound_fraction": row.bound_fraction(estimate),
        "bottleneck": estimate.bottleneck,
    }
