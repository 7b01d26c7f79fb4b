"""Algorithms beside one another, over sizes and over numbers of ranks, up to 100,000: priced, not run.

    ringtree sweep all_reduce --topology dgx-h100 --nodes 12500 --bytes 8:8G
    ringtree sweep all_reduce --topology dgx-h100 --ranks 2:100000 --bytes 1M
    ringtree sweep all_gather --topology cluster:hosts=4 --ranks 32 --bytes 1K:1G --algorithm all
    ringtree sweep all_reduce --topology aws-p5 --nodes 4 --html sweep.html

Bytes are those of the whole vector. The price is from link loads and latencies (docs/price.md); every rank takes part
in the order of its number. Trees are cut into pieces as suits the size. Closed forms stand for the algorithms whose
schedules would be too long to write out; all others are priced by their schedules.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from ringtree.cli.options import cluster


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("collective", metavar="COLLECTIVE", help="all_reduce, all_gather, reduce_scatter, broadcast, reduce, …")
    add("--bytes", default=None, metavar="B", help="8:8G (doubling), 8:8G:4 or 1M,64M (default 8:8G; with --ranks 1M)")
    add("--ranks", metavar="N", help="2:100000 (doubling) or 2,8,64 (default: all there are); nodes are kept whole")
    add("--algorithm", metavar="A", help="some, as ring,double_tree or FILE.py:FUNCTION, or all that serve it "
        "(default: the few that stand for all)")  # fmt: skip
    add("--topology", required=True, metavar="NAME|FILE|SHAPE", help="a machine that `ringtree topo list` knows, a "
        "topology file, or a shape as `ringtree simulate` has them")  # fmt: skip
    cluster.add_arguments(parser, named=False)
    add("--json", type=Path, metavar="FILE", help="write the rows as bench's record")
    add("--html", type=Path, metavar="FILE", help="write a page of charts")
