"""Compare two traces with the same number of ranks: measured and simulated, or two runs.

    ringtree compare-trace real.json.gz simulated.json.gz
    ringtree compare-trace real.json.gz simulated.json.gz --html both.html

Prints both timelines on one scale, then the makespans, each rank's time by activity, the bytes between ranks, and the
calls and messages whose times differ most.
"""

from __future__ import annotations

import argparse

from ringtree.cli.options.files import FileRead, to_write


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `ringtree compare-trace`."""
    parser.add_argument(
        "first", type=FileRead, metavar="REAL", help="a trace file, such as `ringtree run --trace` writes"
    )
    parser.add_argument("second", type=FileRead, metavar="SIMULATED", help="the trace file to compare it with")
    parser.add_argument("--html", type=to_write, metavar="FILE", help="also write a page with both traces")
