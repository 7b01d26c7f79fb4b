"""Time a collective on this machine, with nccl-tests' options and columns, every element of every call checked.

    ringtree bench all_reduce -n 4                             8 bytes to 64 MiB
    ringtree bench all_gather -n 1,2,4 -b 1K -e 16M -f 4 --algorithm all --json rows.json
    ringtree bench --schedule ring.xml                         a file's schedule, beside the algorithm that calls choose
    ringtree bench all_reduce --hosts a:4,b:4                  4 ranks on each of two hosts, by ssh
    RINGTREE_ADDRESS=10.0.0.1:29400 mpirun -n 4 -H 10.0.0.1:2,10.0.0.2:2 ringtree bench all_reduce

-n is the number of ranks; nccl-tests' -n is --iters here. Started by mpirun, torchrun or srun (also over hosts), each
process is a rank, there is no -n, and rank 0 alone prints and writes files. A barrier precedes every call, and every
call is timed on its own; the time shown is the median over calls of the slowest rank's time. A broadcast fills its own
array, so out-of-place its root copies the data there first.
"""

from __future__ import annotations

import argparse

from ringtree.bench.data import OPS, TYPES
from ringtree.cli.options import hosts
from ringtree.cli.options.collective import collective_name
from ringtree.cli.options.files import FileRead, Functions, to_write
from ringtree.cli.options.subject import rank_counts
from ringtree.ir.collective import COLLECTIVES

MISTAKEN = {
    "-g": "a rank is a process (with -t a thread); set the number of ranks with -n",
    "-m": "every call is timed on its own; set the number of calls with --iters",
    "-z": "every call is blocking",
    "-G": "there are no CUDA graphs to capture",
    "-p": "ranks always start in parallel",
    "-N": "to repeat a table, repeat the command",
}
"""nccl-tests' options that have no meaning here, and what to use instead."""


class Refuse(argparse.Action):
    """Refuses an option of nccl-tests that would mean something else here."""

    def __call__(self, parser: argparse.ArgumentParser, *args: object) -> None:
        """Ends the program with the option to use instead."""
        parser.error(f"option {args[-1]} is not supported: {MISTAKEN[str(args[-1])]}")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `ringtree bench`."""
    parser.add_argument(
        "collective", nargs="?", type=collective_name, metavar="COLLECTIVE", help=", ".join(COLLECTIVES)
    )
    add = parser.add_argument
    add("-n", "--ranks", type=rank_counts, metavar="N", help="ranks, or several such as 1,2,4 (default 2)")
    add("-t", "--threads", action="store_true", help="ranks are threads of one process")
    add("-b", "--minbytes", default="8", metavar="SIZE", help="first size (default 8)")
    add("-e", "--maxbytes", default="64M", metavar="SIZE",
        help="largest size; measured only if the steps reach it exactly, as in nccl-tests (default 64M)")  # fmt: skip
    add("-f", "--stepfactor", type=float, metavar="F", help="factor between sizes (default 8)")
    add("-i", "--stepbytes", metavar="SIZE", help="bytes between sizes, in place of -f")
    add("-d", "--dtype", "--datatype", default="float32", metavar="TYPE", help=f"{', '.join(TYPES)} (default float32)")
    add("-o", "--op", default="sum", choices=OPS, metavar="OP", help=f"{', '.join(OPS)} (default sum)")
    add("-r", "--root", type=int, metavar="R", help="root of broadcast, reduce, gather and scatter (default 0)")
    add("-a", "--average", type=int, default=3, choices=(0, 1, 2, 3),
        help="time reported: 0 rank 0, 1 mean of ranks, 2 fastest rank, 3 slowest rank (default 3)")  # fmt: skip
    add("-w", "--warmup_iters", type=int, default=5, metavar="W", help="calls that are not timed (default 5)")
    add("--iters", type=int, metavar="I", help="timed calls (default: 0.1 s of them, 20 to 1000)")
    add("-c", "--check", type=int, default=1, choices=(0, 1), help="0: do not check the results")
    add("-R", "--local_register", type=int, default=0, choices=(0, 2), help="2: arrays in symmetric memory")
    add(
        "--algorithm",
        default="auto",
        metavar="NAME",
        type=Functions,
        help="auto, a name, FILE.py:FUNCTION, or all that serve the collective",
    )
    add("--schedule", type=FileRead, metavar="FILE", help="run the schedule of a file: ringtree's text, MSCCL XML or "
        "an MSCCL++ plan, proved first, on its number of ranks; at each size beside --algorithm")  # fmt: skip
    add(
        "-J",
        "--json",
        "--output_file",
        type=to_write,
        metavar="FILE",
        help="write times and a description of the machine as JSON",
    )
    add(
        "--trace",
        type=to_write,
        metavar="FILE",
        help="after measuring each case, record one more call in place; write these calls one after another as a "
        "trace (JSON, which Perfetto opens; .gz)",
    )
    hosts.add_arguments(parser, "ranks on these hosts, such as a:4,b:4, or a hostfile")
    for option in MISTAKEN:
        add(option, nargs="?", action=Refuse, help=argparse.SUPPRESS)
