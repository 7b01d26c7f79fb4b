"""Schedules nested in groups of ranks, the hosts or the NUMA nodes that they are on: one algorithm inside each, another
between them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ringtree.algorithms.groups import even, written

NESTED = "hierarchical"
IN_NODES = ("two_shot", "flat")
BETWEEN_NODES = ("two_shot", "one_shot", "halving_doubling", "binomial", "double_tree")
"""The algorithms that are nested in NUMA nodes and between them, where they serve what the nesting asks. All those that
are nested in hosts (plan.over_hosts) are predicted to gain less than a tenth more, on 2 or 4 nodes of 2 to 16 ranks: at
most 8 %, rings in nodes of 2 ranks."""
Options = tuple[tuple[str, int | str], ...]


def nestings(group_of: tuple[int, ...], inner: Iterable[str], outer: Iterable[str]) -> Iterator[Options]:
    """The options of NESTED for these groups, one of `inner` inside each and one of `outer` between them; some may not
    serve what the nesting asks."""
    where = ("group", even(group_of) or written(group_of))
    outer = tuple(outer)
    yield from ((where, ("inner", inside), ("outer", between)) for inside in inner for between in outer)


def typed(options: Options) -> str:
    """The nesting as a command line has it: `hierarchical --option group=2 --option inner=ring …`."""
    asked = (f"--option {name}={value}" for name, value in options if name in ("group", "inner", "outer"))
    return " ".join((NESTED, *asked))


def label(options: Options, groups: str) -> str:
    """The two algorithms in words; `groups` is what they are nested in."""
    given = dict(options)
    return f"{given['inner']} in {groups} and {given['outer']} between"
