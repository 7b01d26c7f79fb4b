"""Measure this machine, so that calls are planned for it.

    ringtree tune                       some seconds; writes ~/.config/ringtree/machine.json, which init() reads
    ringtree tune -n 2,4,8 --seconds 30 --output machine.json

Calls of a few algorithms are measured in turns, and the cost parameters of a formula fitted to them: a call, a
message, bytes copied, fetched from a peer and reduced, by what fits the caches, and turns where ranks share a core. By
them calls are chosen and cut. The file is a topology, for `ringtree simulate --topology FILE` too;
RINGTREE_TOPOLOGY=FILE makes init() read another than the usual one.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from ringtree.cli.options.subject import rank_counts

SECONDS = 10.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "-n",
        "--ranks",
        type=rank_counts,
        metavar="N",
        help="numbers of ranks such as 2,4 (default: 2, and to 2 a core)",
    )
    add("--seconds", type=float, default=SECONDS, metavar="S", help="how long to measure (default 10)")
    add("-e", "--maxbytes", default="64M", metavar="SIZE", help="no size over this (default 64M; 8 at least)")
    add("--output", type=Path, metavar="FILE", help="where to write (default: where init() looks)")
