"""Find the quickest schedule for a machine: each algorithm with its ranks in the order that suits the links, rings side
by side where links are left over, and chunks in as many pieces as suit the size; nothing is run.

    ringtree search all_reduce --topology dgx-1-v100 --bytes 256M
    ringtree search broadcast --topology torus:dims=4x4 -n 16 --bytes 1M --root 5
    ringtree search all_reduce --topology dgx-1-v100 --gpus 0,1,2,4,5,6 --bytes 256M --export found.txt
    ringtree search all_gather --topology azure-nc96 --nodes 2 --bytes 64M --algorithm ring,bruck --json found.json

Times are predicted from link loads and latencies (docs/price.md), beside those in rank order and the least that the
links allow. --export writes the quickest schedule, proved: `ringtree simulate`, `show` and `bench --schedule` read the
file, MSCCL and MSCCL++ run theirs. Up to 256 ranks are searched; `ringtree sweep` prices up to 100,000 in rank order.
"""

from __future__ import annotations

import argparse

from ringtree.cli.options import cluster
from ringtree.cli.options.collective import collective_name
from ringtree.cli.options.files import Functions, MayBeFile, to_write
from ringtree.cli.options.subject import add_option


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `ringtree search`."""
    add = parser.add_argument
    add("collective", type=collective_name, metavar="COLLECTIVE", help="all_reduce, all_gather, broadcast, …")
    add("--topology", type=MayBeFile, required=True, metavar="NAME|FILE|SHAPE", help="a machine from "
        "`ringtree topo list`, a topology file, or a shape as in `ringtree simulate --help`")  # fmt: skip
    add("--bytes", metavar="B", help="size of the whole vector, such as 64K or 256M; none for a barrier")
    add("-n", "--ranks", type=int, metavar="N", help="ranks of a shape (default 8)")
    add("--root", type=int, metavar="R", help="the root, where the collective has one (default 0)")
    add("--algorithm", type=Functions, metavar="A", help="names such as ring,double_tree, or FILE.py:FUNCTION "
        "(default: all that serve)")  # fmt: skip
    add_option(parser, "the algorithms that have it")
    cluster.add_arguments(parser, named=False)
    add("--export", type=to_write, metavar="FILE", help="write the quickest schedule; .xml (MSCCL), .json (MSCCL++) "
        "and .txt name the format")  # fmt: skip
    add("--json", type=to_write, metavar="FILE", help="write the candidates as JSON")
