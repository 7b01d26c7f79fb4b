"""`ringtree show` of a trace: as a timeline, in colour where a person looks on."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ringtree.ir.trace import Trace

WIDTH = 100
"""Columns of a timeline that goes into a pipe."""
COLOURS = {"▒": "#56b4e9", "█": "#009e73", "·": "bright_black", "×": "#d55e00", "━╌": "#e69f00"}
"""Okabe and Ito's."""


def is_trace(path: str) -> bool:
    """Whether a file is a trace, and not a schedule."""
    from ringtree.formats import chrome

    return chrome.is_trace(path)


def show(args: argparse.Namespace) -> int:
    """`ringtree show FILE` of a trace. ValueError for an option that only schedules have."""
    from ringtree.cli import page
    from ringtree.formats import chrome

    for name, value in vars(args).items():
        if name not in ("what", "command", "run", "html") and value is not None and value is not False and value != []:
            raise ValueError(f"{args.what} is a trace, not a schedule; leave --{name} out")
    trace = chrome.read(args.what)
    if args.html:
        from ringtree.draw.trace_page import trace_page

        page.write(args.html, trace_page([trace]))
    else:
        draw([trace])
    return 0


def draw(traces: list[Trace]) -> None:
    """Prints the traces one above the other, on one scale."""
    from ringtree.cli import terminal
    from ringtree.draw.timeline import timeline

    span_s = max(trace.makespan_s for trace in traces)
    width = terminal.columns(WIDTH)
    terminal.paint("\n\n".join(timeline(trace, width, span_s) for trace in traces), COLOURS)
