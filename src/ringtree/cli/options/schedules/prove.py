"""Prove that a schedule meets its collective's postcondition for every input, without deadlock and without race.

    ringtree prove all --ranks 1-64             every algorithm, every collective it serves, roots 0, 1 and n-1
    ringtree prove all --ranks 100,1000         schedules of at most 200,000 transfers; larger ones are listed
    ringtree prove ring --collective all_reduce -n 8
    ringtree prove split_tree -n 32 --option group=8
    ringtree prove schedule.txt                 a file names its collective and its number of ranks
    ringtree prove mine.py:function -n 1-16     a function of your own (docs/own_algorithm.md)

FILE is output of `show`, MSCCL XML or an MSCCL++ execution plan; the last line shows its attributes.

First the schedule is executed on symbolic contents. Then the ranks' programs are: they must finish with their staging
slots, no two steps may race, and the result must meet the postcondition too.
"""

from __future__ import annotations

import argparse

from ringtree.cli.options import subject
from ringtree.cli.options.collective import collective_name

MOST_TRANSFERS = 200_000
"""Default limit of `prove all` for one schedule; the largest take half a minute."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `ringtree prove`."""
    described = "all, a name from `ringtree algorithms`, or a schedule file (-: standard input)"
    subject.add_what(parser, "all|ALGORITHM|FILE", described)
    parser.add_argument("--collective", type=collective_name, metavar="C", help="only this collective")
    counted = "ranks, such as 8, 1-64 or 2,4,8 (default 8; all: 1-64)"
    parser.add_argument("-n", "--ranks", type=subject.rank_counts, metavar="N", help=counted)
    subject.add_option(parser)
    parser.add_argument(
        "--most-transfers",
        type=int,
        metavar="T",
        help=f"leave out and list schedules with more transfers (default for all: {MOST_TRANSFERS}; else no limit)",
    )
    parser.add_argument("--jobs", type=int, metavar="J", help="processes (default: one per core)")
