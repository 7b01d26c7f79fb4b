"""Start a program as N ranks on this machine. ringtree.init() in it finds the others.

    ringtree run -n 4 train.py --epochs 3          a Python file
    ringtree run -n 4 -m package.module            a module
    ringtree run -n 4 ./compiled                   anything executable

Each line of output has its rank before it. Ctrl-C is passed on. When a rank dies the others have 5 s to report, then
they are stopped, and it is said which died and how; the exit code is that rank's. With no more ranks than cores, each
has a core of its own. A signal that is ignored at the start, as nohup and a shell's & have it, stays ignored.

With --trace, FILE has what every rank did from ringtree.init() on: its copies, reductions, messages and waits
(docs/tracing.md); also of ranks that failed, but for those that were killed.

With --algorithm, every call that it serves takes it: a name, several (two_shot,pairwise: the first that serves), or
FILE.py:FUNCTION, a function of your own, which is proved over that many ranks before they start
(docs/own_algorithm.md).
"""

from __future__ import annotations

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "ringtree run [-h] -n N [-m] [--algorithm A] [--trace FILE] PROGRAM [ARGS …]"
    parser.add_argument("-n", "--ranks", type=int, required=True, metavar="N", help="how many ranks")
    parser.add_argument("-m", "--module", action="store_true", help="PROGRAM is a Python module's name")
    parser.add_argument("--algorithm", metavar="A", help="what calls take: names, or FILE.py:FUNCTION")
    parser.add_argument(
        "--trace",
        type=Path,
        metavar="FILE",
        help="write what all ranks did as a trace (JSON, which Perfetto opens; .gz)",
    )
    parser.add_argument("program", nargs=argparse.REMAINDER, metavar="PROGRAM ARGS", help="what each rank runs")
