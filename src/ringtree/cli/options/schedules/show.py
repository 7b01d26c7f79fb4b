"""Show a schedule of an algorithm or of a file: the transfers of every round, and the ranks' buffers after it. With
--rank R, the program of rank R.

    ringtree show ring -n 4 --collective all_reduce
    ringtree show binomial --picture
    ringtree show split_tree -n 32 --option group=8
    ringtree show mine.py:function -n 8         a function of your own (docs/own_algorithm.md)
    ringtree show chain -n 8 --bytes 64M        cut as a call on 64 MiB would cut it
    ringtree show ring > ring.txt; ringtree prove ring.txt
    ringtree show double_tree -n 16 --html tree.html

Into a pipe or a file, `show` writes the exact text first and the rounds after it as comments, so that the file reads
back as the same schedule. FILE is output of `show`, MSCCL XML, an MSCCL++ execution plan, or a trace, which is drawn as
a timeline.
"""

from __future__ import annotations

import argparse

from ringtree.cli.options import subject
from ringtree.cli.options.files import MayBeFile, to_write


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `ringtree show`."""
    subject.add_arguments(parser)
    parser.add_argument(
        "--bytes", metavar="B", help="cut the schedule as a call on a whole vector of B bytes would, such as 64K or 16M"
    )
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--rounds", action="store_true", help="the rounds only (default at a terminal)")
    shape.add_argument("--text", action="store_true", help="the exact text only")
    shape.add_argument("--picture", action="store_true", help="as a picture: one column per rank, time runs down")
    shape.add_argument("--rank", type=int, metavar="R", help="the program of rank R")
    shape.add_argument(
        "--html", type=to_write, metavar="FILE", help="write a page that plays the schedule in any browser"
    )
    parser.add_argument(
        "--topology", type=MayBeFile, metavar="SPEC|FILE", help="with --html: the topology whose hosts the page shows"
    )
