"""Show a schedule, an algorithm's or one in a file: round by round, who sends which chunk to whom, and the ranks'
buffers filling. With --rank, what that rank does in it.

    ringtree show ring -n 4 --collective all_reduce
    ringtree show binomial --picture
    ringtree show split_tree -n 32 --option group=8
    ringtree show mine.py:function -n 8         a function of your own (docs/own_algorithm.md)
    ringtree show chain -n 8 --bytes 64M        as it is cut for a vector of that size
    ringtree show ring > ring.txt; ringtree prove ring.txt
    ringtree show double_tree -n 16 --html tree.html

Into a pipe or a file the exact text comes first, and the rounds after it as comments: it reads back as the same
schedule. A file is what `show` printed, MSCCL XML or an MSCCL++ execution plan; or a trace, which is drawn as a
timeline.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from ringtree.cli.options import subject


def add_arguments(parser: argparse.ArgumentParser) -> None:
    subject.add_arguments(parser)
    parser.add_argument("--bytes", metavar="B", help="cut as for a whole vector of that size, such as 64K or 16M")
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--rounds", action="store_true", help="round by round, and only so (at a terminal the default)")
    shape.add_argument("--text", action="store_true", help="the exact text only")
    shape.add_argument("--picture", action="store_true", help="as a picture: a column a rank, time runs down")
    shape.add_argument("--rank", type=int, metavar="R", help="the program of rank R instead")
    shape.add_argument(
        "--html", type=Path, metavar="FILE", help="write a page, on which it plays, that any browser opens"
    )
    parser.add_argument(
        "--topology", metavar="SPEC|FILE", help="with --html: the machine whose hosts the ranks are shown on"
    )
