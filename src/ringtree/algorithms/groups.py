"""Groups of ranks as the option of an algorithm: the ranks of each, the hosts' where they are even, or as a text the
number of each rank's group, such as 0,0,1,0."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence

from ringtree.algorithms.registry import find


def written(group_of: Iterable[int]) -> str:
    """The text of the group of each rank."""
    return ",".join(map(str, group_of))


def read(text: str, ranks: int) -> list[int]:
    """The group of each of `ranks` ranks; ValueError for another text."""
    numbers = text.split(",")
    if len(numbers) != ranks or not all(number.isascii() and number.isdigit() for number in numbers):
        raise ValueError(
            f"group={text[:80]}: expected a size, or the number of each of {ranks} ranks' group: 0,0,1,..."
        )
    return [int(number) for number in numbers]


def even(group_of: tuple[int, ...]) -> int:
    """The ranks of every group, where all have as many and they are consecutive; else 0."""
    ranks, groups = len(group_of), len(set(group_of))
    each = ranks // groups
    alike = ranks % groups == 0 and all(len(set(group_of[at : at + each])) == 1 for at in range(0, ranks, each))
    return each if alike else 0


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
