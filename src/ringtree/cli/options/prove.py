"""Prove that a schedule does what its collective promises, for every input, without deadlock and without race.

    ringtree prove all --ranks 1-64             every algorithm, every collective it serves, roots 0, 1 and n-1
    ringtree prove all --ranks 100,1000         those with at most 200,000 transfers; the others are named
    ringtree prove ring --collective all_reduce -n 8
    ringtree prove split_tree -n 32 --option group=8
    ringtree prove schedule.txt                 a file knows its collective and its ranks
    ringtree prove mine.py:function -n 1-16     a function of your own (docs/own_algorithm.md)

The schedule is proved on symbolic contents; then the programs that ranks run are: that they end with the slots they
have, that no step races with another, and that they too end with what was promised.
"""

from __future__ import annotations

import argparse

from ringtree.cli.options import subject

MOST_TRANSFERS = 200_000
"""Of a schedule that `prove all` proves, unless told otherwise: the largest take half a minute."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    described = "all, a name of those that `ringtree algorithms` lists, or a schedule's file"
    subject.add_what(parser, "all|ALGORITHM|FILE", described)
    parser.add_argument("--collective", metavar="C", help="only this collective")
    counted = "ranks, such as 8, 1-64 or 2,4,8 (default 8; all: 1-64)"
    parser.add_argument("-n", "--ranks", type=subject.rank_counts, metavar="N", help=counted)
    subject.add_option(parser)
    parser.add_argument(
        "--most-transfers",
        type=int,
        metavar="T",
        help=f"leave out schedules with more, and say which (all: {MOST_TRANSFERS}; else none is left out)",
    )
    parser.add_argument("--jobs", type=int, metavar="J", help="processes (default: one a core)")
