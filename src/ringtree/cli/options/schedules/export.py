"""Write a schedule as a file that another runtime runs: MSCCL XML for MSCCL and RCCL, an execution plan for MSCCL++, or
ringtree's own text. What is written is read back and proved first.

    ringtree export ring ring.xml -n 8 --collective all_reduce          MSCCL XML, by the file's suffix
    ringtree export two_shot plan.json -n 8 --collective all_reduce     an MSCCL++ execution plan
    ringtree export ring two.json -n 16 --gpus-per-node 8               two nodes, with port channels between them
    ringtree export schedule.txt schedule.xml                           a file in another format
    ringtree export ring ring.msccl -n 4 --format msccl

MSCCL and MSCCL++ have all_reduce, all_gather, reduce_scatter and all_to_all, and limits on thread blocks and their
steps; a schedule that they have no room for is refused.
"""

from __future__ import annotations

import argparse

from ringtree.cli.options import subject
from ringtree.cli.options.collective import collective_name
from ringtree.cli.options.files import MayBeSchedule, to_write

FORMATS = ("text", "msccl", "mscclpp")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `ringtree export`."""
    parser.add_argument(
        "what",
        type=MayBeSchedule,
        metavar="ALGORITHM|FILE",
        help="a name from `ringtree algorithms`, or a schedule file (-: stdin)",
    )
    parser.add_argument(
        "file", type=to_write, metavar="FILE", help="the file to write; .xml, .json and .txt name a format"
    )
    add = parser.add_argument
    add("-n", "--ranks", type=int, metavar="N", help="ranks (default 8; a file has its own number)")
    add(
        "--collective",
        type=collective_name,
        metavar="C",
        help="a collective that the algorithm serves (default: its first)",
    )
    add("--root", type=int, help="the root, where the collective has one (default 0)")
    subject.add_option(parser)
    add(
        "--gpus-per-node",
        type=int,
        metavar="G",
        help="mscclpp: port channels between nodes of G gpus (default: one node)",
    )
    add("--format", choices=FORMATS, help="the format (default: by the file's suffix)")
