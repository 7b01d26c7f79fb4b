"""Show what `ringtree bench --json` wrote: as a page with --html, or the best at each size as text.

    ringtree report rows.json
    ringtree report rows.json --html report.html
    ringtree report before.json after.json --html report.html        several, one over the other

Rows of other programs may stand beside: docs/pages.md says what a row needs.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from ringtree.bench.record import read
from ringtree.cli import page, terminal
from ringtree.draw.text.report import report_text
from ringtree.pages.report_page import report_page


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", type=Path, metavar="BENCH.json", help="what `ringtree bench --json` wrote")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page that any browser opens")


def run(args: argparse.Namespace) -> int:
    records = dict(zip(_names(args.files), map(read, args.files), strict=True))
    if args.html is None:
        print("\n".join(map(terminal.printable, report_text(records).split("\n"))))
        return 0
    page.write(args.html, report_page(records), *args.files)
    return 0


def _names(files: list[Path]) -> list[str]:
    """The files' names without .json; their whole paths where two are called the same."""
    stems = [path.stem for path in files]
    names = stems if len(set(stems)) == len(stems) else [str(path) for path in files]
    if len(set(names)) < len(names):
        raise ValueError(f"{files[0]}: the same file twice; expected each once")
    return names
