"""Start a program as N ranks, here or on several hosts. ringtree.init() in it finds the others.

    ringtree run -n 4 train.py --epochs 3          a Python file
    ringtree run -n 4 -m package.module            a module
    ringtree run -n 4 ./compiled                   anything executable
    ringtree run --hosts a:4,b:4 train.py          4 ranks on each of two hosts, by ssh

Every line of output starts with its rank. Ctrl-C is passed on to all ranks. When a rank dies, the other ranks have 5 s
to report and are then stopped; a message names the dead rank and how it died, and the exit code is that rank's. With at
most as many ranks as cores, every rank is bound to its share of them. A signal that is ignored at the start, as under
nohup or a shell's &, stays ignored.

With --elastic the others are not stopped: a program whose survivors call comm.shrink() goes on, and the exit code is 0
if one rank's is. --max-restarts N starts killed ranks again, N times in all, with RINGTREE_RESTART=1, 2 … in their
environment: by that the program knows to call ringtree.join() (docs/elastic.md).

Ranks have the variables that torchrun sets (RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and so on), so programs of
torch's run as they do under torchrun, if without its restarts. With --replace gloo, ringtree serves those that ask for
Gloo (docs/pytorch.md).

With --trace, FILE contains every rank's events from ringtree.init() on: copies, reductions, messages and waits
(docs/tracing.md). Ranks that failed are included; ranks that were killed are not.

With --algorithm, every call uses that algorithm if it serves the collective: a name, several names
(two_shot,pairwise: the first that serves the collective), or FILE.py:FUNCTION, a function of your own, which is proved
for N ranks before they start (docs/own_algorithm.md).

With --hosts, ranks fill the slots of the hosts in their order; -n N takes the first N. FILE has lines as "a:4" or
"a slots=4". localhost, this host's name and its addresses need no ssh. Every host needs the program, in a folder of the
same path, and the same version of ringtree. Variables RINGTREE_*, UCX_*, PYTHONPATH and those of --env go along. Lines
of output start with host and rank. When a host, its ssh or this command ends, so do the ranks of all hosts
(docs/multi_node.md).

torchrun, mpirun and srun start ranks on several hosts, too, and these meet by variables (docs/hosts.md):

    RINGTREE_ADDRESS=HOST:PORT      rank 0's address, which the other hosts reach; [ADDRESS]:PORT for IPv6
    RINGTREE_ADDRESS=file:///PATH   a file that the hosts share, in which rank 0 announces its address
    RINGTREE_SECRET=TEXT            known to the ranks of the job alone
    RINGTREE_INTERFACE=NAME         interface, or its address, by which other hosts reach this one
    RINGTREE_TIMEOUT=SECONDS        how long a wait may last (default 300)
"""

from __future__ import annotations

import argparse

from ringtree.cli.options.files import Functions, MayBeFile, to_write


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `ringtree run`."""
    parser.usage = "ringtree run [-h] -n N | --hosts HOSTS [-m] [--algorithm A] [--trace FILE] PROGRAM [ARGS …]"
    parser.add_argument("-n", "-np", "--ranks", type=int, metavar="N", help="number of ranks")
    parser.add_argument("--hosts", type=MayBeFile, metavar="a:4,b:4|FILE", help="hosts and their slots, or a hostfile")
    parser.add_argument("--ssh", metavar="COMMAND", help="reach other hosts by COMMAND, as 'ssh -p 2222' (default ssh)")
    parser.add_argument("--python", metavar="PATH", help="Python on the other hosts (default: the path of this one)")
    parser.add_argument(
        "--interface", metavar="NAME", help="interface by which the hosts reach each other, of one name on all"
    )
    parser.add_argument(
        "--env", action="append", default=[], metavar="NAME[=VALUE]", help="variable that goes along; may be repeated"
    )
    parser.add_argument("-m", "--module", action="store_true", help="PROGRAM is a Python module's name")
    parser.add_argument("--elastic", action="store_true", help="a rank that dies ends no other (docs/elastic.md)")
    parser.add_argument(
        "--max-restarts",
        type=int,
        default=0,
        metavar="N",
        help="with --elastic: start killed ranks again, N times in all",
    )
    parser.add_argument(
        "--algorithm", type=Functions, metavar="A", help="algorithm of the calls: names, or FILE.py:FUNCTION"
    )
    parser.add_argument(
        "--replace", choices=("gloo",), help="serve the ranks that ask torch for Gloo on the CPU (RINGTREE_REPLACES)"
    )
    parser.add_argument(
        "--trace",
        type=to_write,
        metavar="FILE",
        help="write the events of all ranks as a trace (JSON, which Perfetto opens; .gz)",
    )
    parser.add_argument(
        "program", nargs=argparse.REMAINDER, metavar="PROGRAM ARGS", help="the program and its arguments"
    )
