"""Compare two traces of as many ranks: what was measured beside what was simulated, or two runs.

    ringtree compare-trace real.json.gz simulated.json.gz
    ringtree compare-trace real.json.gz simulated.json.gz --html both.html

Both are drawn on one scale; then come the makespans, what each rank spent its time on, the bytes between ranks, and the
calls and messages whose times differ most.
"""

from __future__ import annotations

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("first", metavar="REAL", help="a trace's file, such as `ringtree run --trace` writes")
    parser.add_argument("second", metavar="SIMULATED", help="the trace to lay beside it")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page with both as well")
