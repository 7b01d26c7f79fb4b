"""`ringtree report`: shows records that bench wrote."""

from __future__ import annotations

import argparse
from pathlib import Path

from ringtree.bench.record import read
from ringtree.cli.arguments.destination import write_page
from ringtree.draw.text.report import report_text
from ringtree.files.json_values import printable
from ringtree.pages.report_page import report_page


def run(args: argparse.Namespace) -> int:
    """Prints the results of bench, or writes a page. Returns the exit code."""
    names = map(printable, _names(args.files))
    records = dict(zip(names, map(read, args.files), strict=True))
    if args.html is None:
        print(report_text(records))
        return 0
    write_page(args.html, report_page(records), *args.files)
    return 0


def _names(files: list[Path]) -> list[str]:
    """The files' names without .json; their whole paths where two are called the same."""
    stems = [path.stem for path in files]
    names = stems if len(set(stems)) == len(stems) else [str(path) for path in files]
    if len(set(names)) < len(names):
        raise ValueError(f"{files[0]}: the same file twice; expected each once")
    return names
