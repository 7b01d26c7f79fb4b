"""Show a schedule, an algorithm's or one in a file: round by round, who sends which chunk to whom, and the ranks'
buffers filling. With --rank, what that rank does in it.

    ringtree show ring -n 4 --collective all_reduce
    ringtree show binomial --picture
    ringtree show split_tree -n 32 --option group=8
    ringtree show mine.py:function -n 8         a function of your own (docs/own_algorithm.md)
    ringtree show chain -n 8 --bytes 64M        as it is cut for a vector of that size
    ringtree show ring > ring.txt; ringtree prove ring.txt
    ringtree show double_tree -n 16 --html tree.html

Into a pipe or a file the exact text comes first, and the rounds after it as comments: it reads back as the same
schedule. A file is what `show` printed, MSCCL XML or an MSCCL++ execution plan; or a trace, which is drawn as a
timeline.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ringtree.bench.sweep import parse_bytes
from ringtree.cli import page, show_trace, subject, terminal
from ringtree.draw.text.lines import Span
from ringtree.draw.text.picture import LEGEND, picture
from ringtree.draw.text.rounds import rounds
from ringtree.ir.lower import lower_rank
from ringtree.ir.program import Program
from ringtree.ir.schedule import Schedule
from ringtree.ir.spec import ScheduleError
from ringtree.pages.schedule_page import schedule_page
from ringtree.runtime.engines.shm import staging

WIDTH = 100
"""Columns of the rounds that go into a pipe."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    subject.add_arguments(parser)
    parser.add_argument("--bytes", metavar="B", help="cut as for a whole vector of that size, such as 64K or 16M")
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--rounds", action="store_true", help="round by round, and only so (at a terminal the default)")
    shape.add_argument("--text", action="store_true", help="the exact text only")
    shape.add_argument("--picture", action="store_true", help="as a picture: a column a rank, time runs down")
    shape.add_argument("--rank", type=int, metavar="R", help="the program of rank R instead")
    shape.add_argument(
        "--html", type=Path, metavar="FILE", help="write a page, on which it plays, that any browser opens"
    )
    parser.add_argument(
        "--topology", metavar="SPEC|FILE", help="with --html: the machine whose hosts the ranks are shown on"
    )


def run(args: argparse.Namespace) -> int:
    if args.topology and not args.html:
        raise ValueError("--topology says what machine a page shows the ranks on; give --html FILE too")
    programs: tuple[Program, ...] = ()  # a file's own
    if subject.is_file(args.what):
        if show_trace.is_trace(args.what):
            return show_trace.show(args)
        found = subject.from_file(args, "bytes")
        schedule, programs = found.schedule, found.programs
    else:
        schedule = _algorithms(args)
    if args.html:
        _write_page(schedule, args)
    elif args.picture:
        _draw(schedule)
    elif args.rank is not None:
        _show_program(schedule, programs, args.rank)
    else:
        _show(schedule, args)
    return 0


def _algorithms(args: argparse.Namespace) -> Schedule:
    """The schedule of the algorithm that the call names."""
    if args.bytes and args.option:
        raise ValueError(f"--bytes {args.bytes}: the size says the options; leave --option out")
    schedule = subject.schedule(args)
    return _cut(schedule, args.what, args.bytes) if args.bytes else schedule


def _write_page(schedule: Schedule, args: argparse.Namespace) -> None:
    topology = subject.topology(args.topology, schedule.ranks) if args.topology else None
    page.write(args.html, schedule_page(schedule, topology), args.what, *filter(None, [args.topology]))


def _draw(schedule: Schedule) -> None:
    drawn = picture(schedule)
    print(drawn if drawn.startswith("#") else f"{drawn}\n\n{LEGEND}")  # what does not fit is text, and says so


def _show_program(schedule: Schedule, programs: tuple[Program, ...], rank: int) -> None:
    if not 0 <= rank < schedule.ranks:
        raise ValueError(f"rank {rank}: expected one of the {schedule.ranks} ranks, 0..{schedule.ranks - 1}")
    print(programs[rank] if programs else lower_rank(schedule, rank))


def _show(schedule: Schedule, args: argparse.Namespace) -> None:
    """Round by round, as text, or as text with the rounds in comments."""
    person = sys.stdout.isatty()
    if args.text or not (args.rounds or person):
        print(schedule)
    if args.rounds or (person and not args.text):
        terminal.show(rounds(schedule, terminal.columns(WIDTH)))
    elif not args.text:
        try:
            lines = rounds(schedule, terminal.columns(WIDTH) - len("# "))
        except ScheduleError as refusal:  # its text may be what is wanted, to put it right
            lines = [(Span(f"cannot be played: {refusal}"),)]
        terminal.show([(), *lines], before="# ")


def _cut(schedule: Schedule, algorithm: str, size: str) -> Schedule:
    """Cut for so many bytes; says the steps in a comment."""
    nbytes, (slots, slot_bytes) = parse_bytes(size), staging(schedule.ranks)
    cut, steps = subject.cut(schedule, algorithm, nbytes)
    widest = max((int(b.rows.count.max(initial=1)) for b in cut.blocks), default=1)
    chunk, window = nbytes // cut.chunks, slot_bytes // widest
    passing = f"{window} at a time" if window < chunk else "whole"
    print(f"# {nbytes} bytes through {slots} slots of {slot_bytes}: {steps}; chunks of {chunk} bytes, {passing}")
    return cut
