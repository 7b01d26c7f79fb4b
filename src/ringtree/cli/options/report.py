"""Show what `ringtree bench --json` wrote: as a page with --html, or the best at each size as text.

    ringtree report rows.json
    ringtree report rows.json --html report.html
    ringtree report before.json after.json --html report.html        several, one over the other

Rows of other programs may stand beside: docs/pages.md says what a row needs.
"""

from __future__ import annotations

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", type=Path, metavar="BENCH.json", help="what `ringtree bench --json` wrote")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page that any browser opens")
