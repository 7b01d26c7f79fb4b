"""`ringtree show` of a trace: as a timeline, in colour where a person looks on."""

from __future__ import annotations

import argparse

from ringtree.cli import terminal
from ringtree.cli.arguments import subject
from ringtree.cli.arguments.destination import write_page
from ringtree.draw.text.pipeline import has_pipeline, pipeline
from ringtree.draw.text.timeline import spans, timeline
from ringtree.formats import chrome
from ringtree.pages.trace_page import trace_page

WIDTH = 100
"""Columns of a timeline that goes into a pipe."""


def is_trace(path: str) -> bool:
    """Whether a file is a trace, and not a schedule."""
    return chrome.is_trace(path)


def show(args: argparse.Namespace) -> int:
    """`ringtree show FILE` of a trace. ValueError for an option that only schedules have."""
    for name, value in vars(args).items():
        if name not in ("what", "command", "work", "html") and subject.is_given(value):
            raise ValueError(f"{args.what} is a trace; {subject.option_name(name)} applies to schedules, leave it out")
    trace = chrome.read(args.what)
    if args.html:
        write_page(args.html, trace_page([trace]), args.what)
    else:
        width = terminal.columns(WIDTH)
        work = f"{pipeline(trace, width)}\n\n" if has_pipeline(trace) else ""
        terminal.show(spans(work + timeline(trace, width)))
    return 0
