"""Print or draw a schedule: an algorithm's, or one in a file. With --rank, what that rank does in it."""

from __future__ import annotations

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", metavar="ALGORITHM|FILE")
    parser.add_argument(
        "-n", "--ranks", type=int, default=8, metavar="N", help="ranks (default 8; a file knows its own)"
    )
    parser.add_argument("--collective", metavar="C", help="which of the collectives it serves (default: the first)")
    parser.add_argument("--root", type=int, help="the root, where the collective has one (default 0)")
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--rank", type=int, metavar="R", help="the program of rank R instead")
    shape.add_argument("--picture", action="store_true", help="as a picture: a column a rank, time runs down")


def run(args: argparse.Namespace) -> int:
    from ringtree.algorithms import build
    from ringtree.cli import subject
    from ringtree.ir.lower import lower_rank

    if subject.is_file(args.what):
        schedule, programs = subject.read(args.what)
    else:
        collective = subject.collectives(args.what, args.collective)[0]
        schedule, programs = build(args.what, collective, args.ranks, args.root), ()
    if args.picture:
        from ringtree.draw.picture import LEGEND, picture

        print(f"{picture(schedule)}\n\n{LEGEND}")
        return 0
    if args.rank is None:
        print(schedule)
        return 0
    if not 0 <= args.rank < schedule.ranks:
        raise ValueError(f"rank {args.rank}: expected one of the {schedule.ranks} ranks, 0..{schedule.ranks - 1}")
    print(programs[args.rank] if programs else lower_rank(schedule, args.rank))
    return 0
