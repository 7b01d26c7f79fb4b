"""Time a collective on this machine, with nccl-tests' options and columns, every element of every call checked.

    ringtree bench all_reduce -n 4                             8 bytes to 64 MiB
    ringtree bench all_gather -n 1,2,4 -b 1K -e 16M -f 4 --algorithm all --json rows.json

-n is the number of ranks here, --iters what nccl-tests calls -n. Every call is lined up by a barrier and timed by
itself; the time shown is the median over calls of the slowest rank's. A broadcast fills its own array, so out-of-place
its root copies the data there first.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ringtree.bench.data import OPS, TYPES
from ringtree.bench.machine import describe
from ringtree.bench.measure import Effort
from ringtree.bench.record import Row, predicted, write
from ringtree.bench.session import rows
from ringtree.bench.sweep import Case, parse_bytes, plan, sizes
from ringtree.bench.traced import in_sequence
from ringtree.cli.destination import check_destination
from ringtree.cli.subject import rank_counts
from ringtree.cli.terminal import Bar, progress
from ringtree.draw.text.tables import Figures, nccl_footer, nccl_header, nccl_row
from ringtree.formats import chrome
from ringtree.ir.collective import COLLECTIVES
from ringtree.ir.trace import Trace

MISTAKEN = {
    "-g": "a rank is a process (or, with -t, a thread) here: say how many with -n",
    "-m": "every call is timed by itself: say how many with --iters",
    "-z": "every call is waited for",
    "-G": "there are no graphs to capture",
    "-p": "ranks always start in parallel",
    "-N": "to repeat a table, repeat the command",
}
"""nccl-tests' options that have no meaning here, and what to say instead."""


class Refuse(argparse.Action):
    """An option of nccl-tests' that would silently mean something else."""

    def __call__(self, parser: argparse.ArgumentParser, *args: object) -> None:
        parser.error(f"no {args[-1]} here: {MISTAKEN[str(args[-1])]}")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("collective", metavar="COLLECTIVE", help=", ".join(COLLECTIVES))
    add = parser.add_argument
    add("-n", "--ranks", type=rank_counts, default=[2], metavar="N", help="ranks, or several such as 1,2,4 (default 2)")
    add("-t", "--threads", action="store_true", help="ranks are threads of one process")
    add("-b", "--minbytes", default="8", metavar="SIZE", help="first size (default 8)")
    add("-e", "--maxbytes", default="64M", metavar="SIZE",
        help="no size over this, which is measured if the steps meet it, as in nccl-tests (default 64M)")  # fmt: skip
    add("-f", "--stepfactor", type=float, metavar="F", help="each size F times the last (default 8)")
    add("-i", "--stepbytes", metavar="SIZE", help="each size so much more than the last")
    add("-d", "--dtype", "--datatype", default="float32", metavar="TYPE", help=f"{', '.join(TYPES)} (default float32)")
    add("-o", "--op", default="sum", choices=OPS, metavar="OP", help=f"{', '.join(OPS)} (default sum)")
    add("-r", "--root", type=int, default=0, help="of broadcast, reduce, gather and scatter (default 0)")
    add("-a", "--average", type=int, default=3, choices=(0, 1, 2, 3),
        help="whose time: 0 rank 0's, 1 the mean, 2 the fastest's, 3 the slowest's (default 3)")  # fmt: skip
    add("-w", "--warmup_iters", type=int, default=5, metavar="W", help="calls that are not timed (default 5)")
    add("--iters", type=int, metavar="I", help="timed calls (default: 0.1 s of them, 20 to 1000)")
    add("-c", "--check", type=int, default=1, choices=(0, 1), help="0: do not check the results")
    add("-R", "--local_register", type=int, default=0, choices=(0, 2), help="2: arrays in symmetric memory")
    add("--algorithm", default="auto", metavar="NAME", help="auto, a name, FILE.py:FUNCTION, or all that serve it")
    add(
        "-J", "--json", "--output_file", type=Path, metavar="FILE", help="write the figures, and the machine's, as JSON"
    )
    add(
        "--trace",
        type=Path,
        metavar="FILE",
        help="record one more call of each case, in place, when it is measured, and write them one after another as a "
        "trace (JSON, which Perfetto opens; .gz)",
    )
    for option in MISTAKEN:
        add(option, nargs="?", action=Refuse, help=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    step = None if args.stepbytes is None else parse_bytes(args.stepbytes)
    factor = 8.0 if args.stepfactor is None and step is None else args.stepfactor
    nbytes = sizes(parse_bytes(args.minbytes), parse_bytes(args.maxbytes), factor=factor, step=step)
    effort = _effort(args)
    written = [path for path in (args.json, args.trace) if path]
    for path in written:
        check_destination(path, *(other for other in written if other is not path))
    tables = plan(args.collective, args.ranks, nbytes, args.dtype, args.op, args.root, args.algorithm)
    rows: list[Row] = []
    traces: list[Trace] | None = [] if args.trace else None
    with progress(args.collective, total=sum(map(len, tables))) as bar:
        for table in tables:
            rows += _table(args, table, effort, bar, traces)
    if args.json:
        write(args.json, [predicted(row) for row in rows], effort)
    if traces:
        chrome.write(in_sequence(traces, f"bench {args.collective}"), args.trace)
    wrong = sum((r["wrong"] or 0) + (r["in_place_wrong"] or 0) for r in rows)
    if wrong:
        print(f"ringtree bench: {wrong} elements were wrong, see #wrong", file=sys.stderr)
    return 1 if wrong else 0


def _table(
    args: argparse.Namespace, table: list[Case], effort: Effort, bar: Bar, traces: list[Trace] | None
) -> list[Row]:
    """Measures one table's cases, and prints each as it is done."""
    machine, first = describe(), table[0]
    kind = "threads" if args.threads else "processes"
    iterations = effort.iterations or "as many as take 0.1 s"
    for line in (
        f"# ringtree {machine['ringtree']}: {first.collective}, {first.ranks} {kind}, algorithm {first.algorithm}",
        f"# on {machine['cores']} cores of {machine['cpu']}, {machine['kernel']}",
        f"# minBytes {table[0].nbytes} maxBytes {table[-1].nbytes} warmup iters: {effort.warmup} iters: {iterations} "
        f"validation: {int(effort.check)}",
        "#",
        *nccl_header(),
    ):
        bar.print(line)
    done = []
    for row in rows(table, effort, threads=args.threads, traces=traces):
        bar.print(_line(row))
        bar.advance()
        bar.note(f"{row['algorithm']} {row['nbytes']:,} bytes")
        done.append(row)
    busbw = [r[side] for r in done for side in ("busbw_GBps", "in_place_busbw_GBps")]
    for line in nccl_footer(sum((r["wrong"] or 0) + (r["in_place_wrong"] or 0) for r in done), sum(busbw) / len(busbw)):
        bar.print(line)
    return done


def _line(row: Row) -> str:
    apart = Figures(row["time_us"], row["algbw_GBps"], row["busbw_GBps"], row["wrong"])
    inside = Figures(
        row["in_place_time_us"], row["in_place_algbw_GBps"], row["in_place_busbw_GBps"], row["in_place_wrong"]
    )
    return nccl_row(
        row["nbytes"],
        row["count"],
        row["dtype"],
        row["op"],
        row["root"],
        apart if row["out_of_place"] else None,
        inside,
        f"{row['algorithm']} ({row['program']})",
    )


def _effort(args: argparse.Namespace) -> Effort:
    if args.warmup_iters < 0 or (args.iters is not None and args.iters < 1):
        given = f"-w {args.warmup_iters}" + ("" if args.iters is None else f" --iters {args.iters}")
        raise ValueError(f"{given}: expected a warm-up of at least 0 and at least 1 timed call")
    return Effort(args.warmup_iters, args.iters, args.check > 0, args.average, args.local_register == 2)
