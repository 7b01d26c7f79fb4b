"""Schedules nested in groups of ranks, the hosts or the NUMA nodes that they are on: one algorithm inside each, another
between them."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Sequence

from ringtree.algorithms import find
from ringtree.algorithms.groups import written

NESTED = "hierarchical"
IN_NODES = ("two_shot", "flat")
BETWEEN_NODES = ("two_shot", "one_shot", "halving_doubling", "binomial", "double_tree")
"""The algorithms that are nested in NUMA nodes and between them, where they serve what the nesting asks. All those that
are nested in hosts (plan.over_hosts) are predicted to gain less than a tenth more, on 2 or 4 nodes of 2 to 16 ranks: at
most 8 %, rings in nodes of 2 ranks."""
Options = tuple[tuple[str, int | str], ...]


def even(group_of: tuple[int, ...]) -> int:
    """The ranks of every group, where all have as many and they are consecutive; else 0."""
    ranks, groups = len(group_of), len(set(group_of))
    each = ranks // groups
    alike = ranks % groups == 0 and all(len(set(group_of[at : at + each])) == 1 for at in range(0, ranks, each))
    return each if alike else 0


def nestings(group_of: tuple[int, ...], inner: Iterable[str], outer: Iterable[str]) -> Iterator[Options]:
    """The options of NESTED for these groups, one of `inner` inside each and one of `outer` between them; some may not
    serve what the nesting asks."""
    where = ("group", even(group_of) or written(group_of))
    outer = tuple(outer)
    yield from ((where, ("inner", inside), ("outer", between)) for inside in inner for between in outer)


def takes_groups(algorithm: str, collective: str) -> bool:
    """Whether the algorithm's function for a collective has an option `group`."""
    return "group" in inspect.signature(find(algorithm).function(collective)).parameters


def host_group(algorithm: str, collective: str, host_of: Sequence[int]) -> dict[str, int]:
    """The option `group` of an algorithm whose user gives none, from each rank's host: as many ranks as a host has.
    Empty where the algorithm has no such option, and where the ranks are on one host, or on hosts that are not even:
    the algorithm's own default holds there."""
    if not takes_groups(algorithm, collective) or len(set(host_of)) < 2:
        return {}
    each = even(tuple(host_of))
    return {"group": each} if each else {}


def typed(options: Options) -> str:
    """The nesting as a command line has it: `hierarchical --option group=2 --option inner=ring …`."""
    asked = (f"--option {name}={value}" for name, value in options if name in ("group", "inner", "outer"))
    return " ".join((NESTED, *asked))


def label(options: Options, groups: str) -> str:
    """The two algorithms in words; `groups` is what they are nested in."""
    given = dict(options)
    return f"{given['inner']} in {groups} and {given['outer']} between"
