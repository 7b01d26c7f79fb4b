"""The terminal: rich where a person looks on, plain text where a program does. NO_COLOR is heeded (by rich)."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from ringtree.draw.text.lines import Line
from ringtree.files.json_values import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

T = TypeVar("T")

WIDE = 200
"""Columns of a line that nobody's window cuts: a pipe's."""


def console(error: bool = False) -> Console:
    """A rich console for standard output (or error). Into a pipe it writes plain lines that do not wrap at 80."""
    from rich.console import Console

    class Screen(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # as `print` does; rich's own ends the command with another code

    stream = sys.stderr if error else sys.stdout
    return Screen(stderr=error, width=None if stream.isatty() else WIDE, highlight=False)


def columns(otherwise: int) -> int:
    """Returns the width of the terminal on standard output; the given width into a pipe."""
    return console().width if sys.stdout.isatty() else otherwise


STYLES = {
    "head": "bold",
    "new": "bold #e69f00",
    "kept": "#009e73",
    "new kept": "bold #009e73",
    "faint": "dim",
    "wrong": "bold #d55e00",
    "copy": "#56b4e9",
    "reduce": "#e69f00",
    "wait": "dim",
    "stall": "#d55e00",
    "compute": "#0072b2",
    "path": "#cc79a7",
    **{f"series {n}": c for n, c in enumerate(("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"))},
    "gpu": "bold #009e73",
    "nic": "#56b4e9",
    "near": "#009e73",
    "mid": "#56b4e9",
    "far": "#e69f00",
    "farthest": "#d55e00",
}
"""Styles of a line's pieces by their kind; Okabe and Ito's colours."""


def show(lines: Iterable[Line], before: str = "") -> None:
    """Prints lines that draw has made, coloured on a terminal without NO_COLOR. `before`: the beginning of each
    line."""
    if sys.stdout.isatty() and not (screen := console()).no_color:
        from rich.text import Text

        for line in lines:
            pieces = ((printable(piece.text), STYLES.get(piece.role, "")) for piece in line)
            screen.print(Text.assemble(before, *pieces), soft_wrap=True)
        return
    for line in lines:
        print((before + "".join(printable(piece.text) for piece in line)).rstrip())


class Bar:
    """A progress bar on standard error while that is a terminal; where it is not, nothing but the lines printed."""

    def __init__(self, progress: Progress | None, task: TaskID | None) -> None:
        self._progress, self._task = progress, task

    def advance(self, by: float = 1) -> None:
        """Moves the bar by `by` units."""
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, advance=by, refresh=True)

    def reach(self, done: float) -> None:
        """Moves the bar to `done` units."""
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, completed=done, refresh=True)

    def note(self, text: str) -> None:
        """Shows beside the bar what is being done."""
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, text=text, refresh=True)

    def print(self, line: str) -> None:
        """A line of output, above the bar where both are on one screen."""
        if self._progress is not None and sys.stdout.isatty():
            self._progress.console.print(line, markup=False, soft_wrap=True)
        else:
            print(line, flush=True)


class _Silent(Bar):
    """The bar of a rank that prints nothing."""

    def print(self, line: str) -> None:
        pass


SILENT = _Silent(None, None)


@contextmanager
def progress(what: str, total: float) -> Iterator[Bar]:
    """A bar that is there while the block runs. Only the block's own calls draw it, never a thread: the block may
    fork."""
    if not sys.stderr.isatty():
        yield Bar(None, None)
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("[dim]{task.fields[text]}"),
    )
    screen = console(error=not sys.stdout.isatty())
    with Progress(*columns, console=screen, transient=True, auto_refresh=False) as live:
        yield Bar(live, live.add_task(what, total=total, text=""))


def counted(what: str, items: Sequence[T]) -> Iterator[T]:
    """Yields the items, under a bar that counts those that are done."""
    with progress(what, len(items)) as bar:
        for item in items:
            yield item
            bar.advance()
