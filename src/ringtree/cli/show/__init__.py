"""A schedule or a trace, shown: `ringtree show`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module

from ringtree.cli import terminal
from ringtree.cli.arguments import subject
from ringtree.cli.arguments.byte_sizes import parse_bytes
from ringtree.cli.arguments.destination import files_read, write_page
from ringtree.cli.show import trace as show_trace
from ringtree.draw.text.lines import Line, TextSpan
from ringtree.draw.text.picture import LEGEND, picture
from ringtree.draw.text.rounds import rounds, unkept
from ringtree.ir.lower import lower_rank
from ringtree.ir.program import Program
from ringtree.ir.schedule import Schedule
from ringtree.ir.spec import ScheduleError, check
from ringtree.pages.schedule_page import schedule_page
from ringtree.topology.graph import Topology

LATER = {"cut": "ringtree.cli.arguments.as_called", "topology": "ringtree.cli.arguments.topology"}
"""Modules that most calls do not need: loaded where they are used."""
WIDTH = 100
"""Columns of the rounds that go into a pipe."""


def run(args: argparse.Namespace) -> int:
    """Prints a schedule or a trace, or writes a page. Returns the exit code."""
    if args.topology and not args.html:
        raise ValueError("--topology names the machine that a page shows; expected --html FILE as well")
    topology: Topology | None = None
    programs: tuple[Program, ...] = ()  # a file's own
    if subject.is_file(args.what):
        if show_trace.is_trace(args.what):
            return show_trace.show(args)
        found = subject.from_file(args, "bytes")
        schedule, programs = found.schedule, found.programs
        topology = _topology(args, schedule.ranks)
    else:
        topology = _topology(args, subject.ranks_of(args))
        schedule = _algorithms(args, [] if topology is None else topology.hosts[: subject.ranks_of(args)].tolist())
    if args.html:
        write_page(args.html, schedule_page(schedule, topology), *files_read(args))
    elif args.picture:
        check(schedule)
        _draw(schedule)
    elif args.rank is not None:
        _show_program(schedule, programs, args.rank)
    else:
        _show(schedule, args)
    return 0


def _algorithms(args: argparse.Namespace, host_of: Sequence[int]) -> Schedule:
    """The schedule of the algorithm that the call names, over ranks on these hosts."""
    schedule, options = subject.schedule(args, host_of), subject.options(args, host_of)
    if grouped := subject.group_in_words(args, host_of):
        print(f"# {grouped}")
    if args.bytes:
        size = parse_bytes(args.bytes)
        schedule, summary = import_module(LATER["cut"]).cut_in_words(schedule, args.what, size, options)
        print(f"# {summary}")
    return schedule


def _topology(args: argparse.Namespace, ranks: int) -> Topology | None:
    """The topology of a page's ranks; None where the call names none."""
    if not args.topology:
        return None
    made: Topology = import_module(LATER["topology"]).topology(args.topology, ranks)
    return made


def _draw(schedule: Schedule) -> None:
    drawn, lacking = picture(schedule), unkept(schedule)
    print(drawn if drawn.startswith("#") else f"{drawn}\n\n{LEGEND}")  # what is too large to draw is commented text
    if lacking:
        print(f"\n{lacking}")


def _show_program(schedule: Schedule, programs: tuple[Program, ...], rank: int) -> None:
    if not 0 <= rank < schedule.ranks:
        raise ValueError(f"rank {rank}: expected one of the {schedule.ranks} ranks, 0..{schedule.ranks - 1}")
    check(schedule)
    print(programs[rank] if programs else lower_rank(schedule, rank))
    if lacking := unkept(schedule):
        print(f"# {lacking}")


def _show(schedule: Schedule, args: argparse.Namespace) -> None:
    """Round by round, as text, or as text with the rounds in comments."""
    person = sys.stdout.isatty()
    if args.rounds or (person and not args.text):
        check(schedule)
        terminal.show(rounds(schedule, terminal.columns(WIDTH)))
        return
    print(schedule)
    lines: list[Line] = []
    try:
        check(schedule)
        if not args.text:
            lines = rounds(schedule, terminal.columns(WIDTH) - len("# "))
    except ScheduleError as refusal:  # its text may be what is wanted, to put it right
        lines = [(TextSpan(f"cannot be simulated: {refusal}"),)]
    terminal.show([(), *lines] if lines else [], before="# ")
