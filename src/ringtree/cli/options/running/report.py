"""Show results of `ringtree bench --json`: the best algorithm at each size as text, or a page with --html.

    ringtree report rows.json
    ringtree report rows.json --html report.html
    ringtree report before.json after.json --html report.html        several files in one chart

Rows from other programs can be included: docs/pages.md lists the fields of a row.
"""

from __future__ import annotations

import argparse

from ringtree.cli.options.files import FileRead, to_write


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `ringtree report`."""
    parser.add_argument(
        "files", nargs="+", type=FileRead, metavar="BENCH.json", help="a file that `ringtree bench --json` wrote"
    )
    parser.add_argument("--html", type=to_write, metavar="FILE", help="write a page that any browser opens")
