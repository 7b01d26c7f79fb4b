"""The sum of a rank's own parts in the order in which deterministic="ranks" adds up ranks."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import TypeVar

Part = TypeVar("Part")


def balanced_sum(parts: Iterable[Part], add: Callable[[Part, Part], Part] = operator.add) -> Part:
    """The sum of `parts`, arrays of one shape and type, by the balanced tree over them in their order.

    Where every rank of n contributes the sum of 2**j parts (the last one of at most so many), `comm.all_reduce(...,
    deterministic="ranks")` has the bits of the sum of all parts over any other such n, 1 among them. Parts may come one
    by one: about lg(their number) sums are kept. `add` is another function of two parts, which leaves them alone.
    ValueError: if there are none.
    """
    held: list[tuple[int, Part]] = []  # the sums of runs of parts, each a power of two, and longer than the next
    for part in parts:
        many = 1
        while held and held[-1][0] == many:
            before, left = held.pop()
            part, many = add(left, part), before + many
        held.append((many, part))
    if not held:
        raise ValueError("balanced_sum of no parts: expected one at least")
    _, total = held.pop()
    while held:
        total = add(held.pop()[1], total)
    return total
