"""Compare predicted times of algorithms over sizes and numbers of ranks, up to 100,000; nothing is run.

    ringtree sweep all_reduce --topology dgx-h100 --nodes 12500 --bytes 8:8G
    ringtree sweep all_reduce --topology dgx-h100 --ranks 2:100000 --bytes 1M
    ringtree sweep all_gather --topology cluster:hosts=4 --ranks 32 --bytes 1K:1G --algorithm all
    ringtree sweep all_reduce --topology aws-p5 --nodes 4 --html sweep.html

Sizes are bytes of the whole vector. Predicted times are from link loads and latencies (docs/price.md); ranks are used
in numeric order. Trees are cut into pieces as the size requires. Algorithms whose schedules would be too long are
priced by closed forms, all others by their schedules.
"""

from __future__ import annotations

import argparse

from ringtree.cli.options import cluster
from ringtree.cli.options.collective import collective_name
from ringtree.cli.options.files import Functions, MayBeFile, to_write
from ringtree.cli.options.subject import add_option


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `ringtree sweep`."""
    add = parser.add_argument
    add(
        "collective",
        type=collective_name,
        metavar="COLLECTIVE",
        help="all_reduce, all_gather, reduce_scatter, broadcast, reduce, …",
    )
    add("--bytes", default=None, metavar="B", help="8:8G (doubling), 8:8G:4 or 1M,64M (default 8:8G; with --ranks "
        "1M); none for a barrier")  # fmt: skip
    add(
        "-n",
        "--ranks",
        metavar="N",
        help="2:100000 (doubling) or 2,8,64 (default: all of the topology); whole nodes only",
    )
    add("--algorithm", type=Functions, metavar="A", help="names such as ring,double_tree, FILE.py:FUNCTION, or all "
        "(default: a few representative ones)")  # fmt: skip
    add("--topology", type=MayBeFile, required=True, metavar="NAME|FILE|SHAPE", help="a machine from "
        "`ringtree topo list`, a topology file, or a shape as in `ringtree simulate --help`")  # fmt: skip
    add_option(parser, "the algorithms that have it")
    cluster.add_arguments(parser, named=False)
    add("--json", type=to_write, metavar="FILE", help="write the rows as JSON, in the format of bench")
    add("--html", type=to_write, metavar="FILE", help="write a page of charts")
