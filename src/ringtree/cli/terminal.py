"""The terminal: rich where a person looks on, plain text where a program does. NO_COLOR is heeded (by rich)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

WIDE = 200
"""Columns of a line that nobody's window cuts: a pipe's."""


def console(error: bool = False) -> Console:
    """A rich console for standard output (or error). Into a pipe it writes plain lines that do not wrap at 80."""
    from rich.console import Console

    stream = sys.stderr if error else sys.stdout
    return Console(stderr=error, width=None if stream.isatty() else WIDE, highlight=False)


@contextmanager
def progress(what: str, total: float | None = None) -> Iterator[Callable[[float, str], None]]:
    """A progress bar on standard error while it is a terminal, and nothing at all where it is not.

    Yields advance(by, text): moves the bar and shows `text` beside it.
    """
    if not sys.stderr.isatty():
        yield lambda by, text: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("[dim]{task.fields[text]}"),
    )
    with Progress(*columns, console=console(error=True), transient=True) as bar:
        task = bar.add_task(what, total=total, text="")
        yield lambda by, text: bar.update(task, advance=by, text=text)
