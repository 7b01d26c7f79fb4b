"""Check this host and, with ranks on several hosts, every link between them.

    ringtree doctor                     this host: software, resources, network, wires, launchers, GPUs, settings
    ringtree doctor --json
    ringtree doctor --html doctor.html
    ringtree doctor --hosts a,b         a rank on each of these hosts, over ssh as `ringtree run --hosts`
    RINGTREE_ADDRESS=10.0.0.1:29400 mpirun -n 2 -H 10.0.0.1,10.0.0.2 ringtree doctor

Each row is ok, a note or a problem; below a note or a problem are the commands of which each helps. The exit code is 1
where there is a problem, else 0. A note hinders nothing that was asked for.

Ranks on several hosts, by --hosts or started as any program is (RINGTREE_ADDRESS set), check each host, and measure
latency and bandwidth between every two of them: in rounds, so that no host has two measurements at a time. Rank 0
prints a matrix, hosts and pairs that are much slower than the usual, and wrong interfaces. Ranks meet within
RINGTREE_TIMEOUT, 30 s where it is not set.
"""

from __future__ import annotations

import argparse

from ringtree.cli.options import hosts
from ringtree.cli.options.files import to_write

SECONDS = 10.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `ringtree doctor`."""
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print the result as JSON")
    form.add_argument("--html", type=to_write, metavar="FILE", help="write a page that any browser opens")
    hosts.add_arguments(parser, "check these hosts and their links")
    parser.add_argument("--tune-command", default="ringtree tune", help=argparse.SUPPRESS)  # for the ranks of --hosts
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, metavar="S", help="seconds for all links between hosts (default 10)"
    )
