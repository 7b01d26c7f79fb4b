"""Compare two traces with the same number of ranks: measured and simulated, or two runs.

    ringtree compare-trace real.json.gz simulated.json.gz
    ringtree compare-trace real.json.gz simulated.json.gz --html both.html

Prints both timelines on one scale, then the makespans, each rank's time by activity, the bytes between ranks, and the
calls and messages whose times differ most.
"""

from __future__ import annotations

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `ringtree compare-trace`."""
    parser.add_argument("first", metavar="REAL", help="a trace file, such as `ringtree run --trace` writes")
    parser.add_argument("second", metavar="SIMULATED", help="the trace file to compare it with")
    parser.add_argument("--html", type=Path, metavar="FILE", help="also write a page with both traces")
