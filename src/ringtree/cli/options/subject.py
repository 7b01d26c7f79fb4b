"""Options that name one schedule: an algorithm or a file, its ranks and its options."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import Any

from ringtree.cli.options.collective import collective_name
from ringtree.cli.options.files import MayBeSchedule

MOST_RANKS = 1 << 20


class IfGiven(argparse.Action):
    """Stores the value unless it is absent: the other argument that sets the same has it then."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, *_: object) -> None:
        """As argparse's own action does it."""
        if values is not None:
            setattr(namespace, self.dest, values)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the schedule, -n, --collective, --root and --option."""
    add_what(parser, "ALGORITHM|FILE", "a name from `ringtree algorithms`, or a schedule file (-: standard input)")
    add = parser.add_argument
    add("-n", "--ranks", type=int, metavar="N", help="ranks (default 8; a file has its own number)")
    add(
        "--collective",
        type=collective_name,
        metavar="C",
        help="a collective that the algorithm serves (default: its first)",
    )
    add("--root", type=int, help="the root, where the collective has one (default 0)")
    add_option(parser)


def add_what(parser: argparse.ArgumentParser, metavar: str, described: str) -> None:
    """Adds the algorithm or file, as the first argument or as `--algorithm`."""
    either = parser.add_mutually_exclusive_group(required=True)
    either.add_argument("what", nargs="?", action=IfGiven, type=MayBeSchedule, metavar=metavar, help=described)
    either.add_argument(
        "--algorithm",
        dest="what",
        type=MayBeSchedule,
        metavar="A",
        help="the same as the first argument: a name, or FILE.py:FUNCTION, a function of your own",
    )


def add_option(parser: argparse.ArgumentParser, whose: str = "the algorithm") -> None:
    """Adds --option NAME=VALUE."""
    parser.add_argument(
        "--option",
        type=option,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help=f"option of {whose}, such as group=4; may be repeated",
    )


def option(text: str) -> tuple[str, object]:
    """A name, and a word or any JSON."""
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not an option: expected NAME=VALUE, such as group=4")
    try:
        return name, json.loads(value)
    except (ValueError, RecursionError):
        return name, value


def rank_counts(text: str) -> list[int]:
    """Returns `counts(text)`; raises argparse's error type for a mistake."""
    try:
        return counts(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def counts(text: str) -> list[int]:
    """Returns the numbers of ranks in `4`, `1-64` or `2,4,8-10`, in order, each once; ValueError for anything else."""
    found: list[int] = []
    for part in text.split(","):
        low, dash, high = part.partition("-")
        try:
            first, last = int(low), int(high if dash else low)
        except ValueError:
            raise ValueError(f"{text!r} is not a number of ranks: expected such as 8, 1-64 or 1,2,4") from None
        if not 1 <= first <= last <= MOST_RANKS:
            raise ValueError(f"{part} ranks: expected 1 to {MOST_RANKS}, and from low to high")
        found.extend(range(first, last + 1))
    return list(dict.fromkeys(found))


def span(ranks: Sequence[int]) -> str:
    """Returns numbers of ranks as text that `counts` reads; consecutive numbers as FIRST-LAST."""
    runs: list[list[int]] = []
    for n in ranks:
        if runs and n == runs[-1][1] + 1:
            runs[-1][1] = n
        else:
            runs.append([n, n])
    return ",".join(f"{first}-{last}" if last > first else f"{first}" for first, last in runs)
