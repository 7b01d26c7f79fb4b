"""Time a collective on this machine, with nccl-tests' options and columns, every element of every call checked.

    ringtree bench all_reduce -n 4                             8 bytes to 64 MiB
    ringtree bench all_gather -n 1,2,4 -b 1K -e 16M -f 4 --algorithm all --json rows.json

-n is the number of ranks here, --iters what nccl-tests calls -n. Every call is lined up by a barrier and timed by
itself; the time shown is the median over calls of the slowest rank's. A broadcast fills its own array, so out-of-place
its root copies the data there first.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from ringtree.bench.data import OPS, TYPES
from ringtree.cli.options.subject import rank_counts
from ringtree.ir.collective import COLLECTIVES

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
