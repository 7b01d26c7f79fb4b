"""Two traces, one beside the other: `ringtree compare-trace`."""

from __future__ import annotations

import argparse

from ringtree.cli import terminal
from ringtree.cli.arguments.destination import check_destination, write_page
from ringtree.cli.show.trace import WIDTH
from ringtree.draw.text.comparison import comparison
from ringtree.draw.text.timeline import spans
from ringtree.formats import chrome
from ringtree.pages.trace_page import trace_page


def run(args: argparse.Namespace) -> int:
    """Prints the comparison of two trace files. Returns the exit code."""
    if args.html is not None:
        check_destination(args.html, args.first, args.second)
    first, second = chrome.read(args.first), chrome.read(args.second)
    terminal.show(spans(comparison(first, second, terminal.columns(WIDTH))))
    if args.html is not None:
        write_page(args.html, trace_page([first, second]), args.first, args.second)
    return 0
