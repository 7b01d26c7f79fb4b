"""Print or draw a schedule: an algorithm's, or one in a file. With --rank, what that rank does in it.

    ringtree show ring -n 8 --collective all_reduce
    ringtree show binomial --picture
    ringtree show split_tree -n 32 --option group=8
    ringtree show chain -n 8 --bytes 64M        as it is cut for a vector of that size

A file is what `show` printed, MSCCL XML or an MSCCL++ execution plan; or a trace, which is drawn as a timeline.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ringtree.ir.schedule import Schedule


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from ringtree.cli import subject

    parser.add_argument(
        "what", metavar="ALGORITHM|FILE", help="a name of those that `ringtree algorithms` lists, or a schedule's file"
    )
    parser.add_argument("-n", "--ranks", type=int, metavar="N", help="ranks (default 8; a file knows its own)")
    parser.add_argument("--collective", metavar="C", help="which of the collectives it serves (default: the first)")
    parser.add_argument("--root", type=int, help="the root, where the collective has one (default 0)")
    subject.add_option(parser)
    parser.add_argument("--bytes", metavar="B", help="cut as for a whole vector of that size, such as 64K or 16M")
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--rank", type=int, metavar="R", help="the program of rank R instead")
    shape.add_argument("--picture", action="store_true", help="as a picture: a column a rank, time runs down")


def run(args: argparse.Namespace) -> int:
    from ringtree.cli import show_trace, subject
    from ringtree.ir.lower import lower_rank

    if subject.is_file(args.what):
        if show_trace.is_trace(args.what):
            return show_trace.show(args)
        for option in ("ranks", "collective", "root", "bytes", "option"):
            if getattr(args, option) not in (None, []):
                raise ValueError(f"a file says itself what it is; leave --{option} out")
        schedule, programs = subject.read(args.what)
    else:
        collective = subject.collectives(args.what, args.collective)[0]
        ranks = 8 if args.ranks is None else args.ranks
        schedule, programs = subject.built(args.what, collective, ranks, args.root, args.option), ()
        if args.bytes and args.option:
            raise ValueError(f"--bytes {args.bytes}: the size says the options; leave --option out")
        if args.bytes:
            schedule = _cut(schedule, args.what, args.bytes)
    if args.picture:
        from ringtree.draw.picture import LEGEND, picture

        drawn = picture(schedule)
        print(drawn if drawn.startswith("#") else f"{drawn}\n\n{LEGEND}")  # what does not fit is text, and says so
        return 0
    if args.rank is None:
        print(schedule)
        return 0
    if not 0 <= args.rank < schedule.ranks:
        raise ValueError(f"rank {args.rank}: expected one of the {schedule.ranks} ranks, 0..{schedule.ranks - 1}")
    print(programs[args.rank] if programs else lower_rank(schedule, args.rank))
    return 0


def _cut(schedule: Schedule, algorithm: str, size: str) -> Schedule:
    """As a call on that many bytes has it in a group of this machine; says the steps in a comment."""
    from ringtree.bench.sweep import parse_bytes
    from ringtree.plan import steps_for
    from ringtree.runtime.shm import staging

    nbytes, (slots, slot_bytes) = parse_bytes(size), staging(schedule.ranks)
    what = (algorithm, schedule.collective, schedule.ranks, schedule.root)
    steps = steps_for(*what, nbytes, slots, slot_bytes)
    cut = steps.apply(*what)
    widest = max((int(b.rows.count.max(initial=1)) for b in cut.blocks), default=1)
    chunk, window = nbytes // cut.chunks, slot_bytes // widest
    passing = f"{window} at a time" if window < chunk else "whole"
    print(f"# {nbytes} bytes through {slots} slots of {slot_bytes}: {steps}; chunks of {chunk} bytes, {passing}")
    return cut
