"""Hierarchical: one algorithm inside groups of consecutive ranks, another between the groups (transform.nest).

Between groups a rank sends 1/g of the vector where the collective can be sharded. Options: `group` (the
size of a group, a divisor of n; or each rank's group, such as 0,0,1,0: any ranks, transform.nest_in_hosts), `inner` and
`outer` (names of algorithms). By default g is the greatest divisor of n that is at most its square root, inside is a
ring, between is halving-doubling; for broadcast and reduce a chain and a double tree, for gather and scatter binomial
trees, for all_to_all pairwise exchanges. A prime n has no groups.
"""

from __future__ import annotations

from dataclasses import replace
from math import isqrt

from ringtree.algorithms.cost import S, Term, at_most, cost, lg, minimum, n, power_of_two
from ringtree.algorithms.groups import read
from ringtree.algorithms.registry import find
from ringtree.algorithms.trees.binomial import t as subtree
from ringtree.ir.schedule import Schedule
from ringtree.transform import nest, nest_in_hosts
from ringtree.transform.nest_all_to_all import AT_ONCE

SOURCE = (
    "Karonis and others: Exploiting hierarchy in parallel computer networks to optimize collective operation "
    "performance, 2000"
)
WHEN = "ranks on several hosts, or several sockets, where links between them are slower than inside."


def default_group(ranks: int) -> int:
    """The greatest divisor of `ranks` that is at most its square root."""
    return max(g for g in range(1, isqrt(ranks) + 1) if ranks % g == 0)


g = Term("g", default_group, "g ranks a group")
h = Term("h", lambda ranks: ranks // default_group(ranks), "h = n/g groups")
t = Term("t", lambda ranks: subtree.of(h.of(ranks)), "t: groups in the root's greatest subtree")
b = Term("b", lambda ranks: -(-h.of(ranks) // AT_ONCE), f"b = h/{AT_ONCE}, rounded up")
q = Term("q", lambda ranks: power_of_two(h.of(ranks)), "q: the largest power of two up to h")


@cost(2 * (g - 1) + 2 * lg(q) + 2 * (h > q), 2 * (g - 1) / g * S + (2 * (q - 1) / q + (h > q)) * S / g)
def all_reduce(
    ranks: int, *, group: int | str | None = None, inner: str = "ring", outer: str = "halving_doubling"
) -> Schedule:
    """Returns `inner` nested in groups and `outer` between them. ValueError where `group` does not divide n."""
    return _nested("all_reduce", ranks, None, group, inner, outer)


@cost(g - 1 + lg(q) + 2 * (h > q), (g - 1) / g * S + (h - 1 + (h > q)) / h * S / g)
def reduce_scatter(
    ranks: int, *, group: int | str | None = None, inner: str = "ring", outer: str = "halving_doubling"
) -> Schedule:
    """Returns `inner` inside groups and `outer` between them, n chunks. ValueError where `group` does not divide n."""
    return _nested("reduce_scatter", ranks, None, group, inner, outer)


@cost(
    g - 1 + lg(q) + 2 * (h > q),
    at_most((g - 1) / g * S + (q - 1 + minimum(q - 1, (h - q) * lg(q)) + (h > q) * h) / h * S / g),
)
def all_gather(
    ranks: int, *, group: int | str | None = None, inner: str = "ring", outer: str = "halving_doubling"
) -> Schedule:
    """Returns `outer` between groups and `inner` inside them, n chunks. ValueError where `group` does not divide n."""
    return _nested("all_gather", ranks, None, group, inner, outer)


@cost(g - 1 + lg(h), S + (g > 1) * S, pipelines=True)
def broadcast(
    ranks: int, root: int, *, group: int | str | None = None, inner: str = "chain", outer: str = "double_tree"
) -> Schedule:
    """Returns `outer` from the root's group to all groups, then `inner`. ValueError where `group` does not divide n."""
    return _nested("broadcast", ranks, root, group, inner, outer)


@cost(g - 1 + lg(h), S, pipelines=True)
def reduce(
    ranks: int, root: int, *, group: int | str | None = None, inner: str = "chain", outer: str = "double_tree"
) -> Schedule:
    """Returns `inner` inside groups, then `outer` to the root's group. ValueError where `group` does not divide n."""
    return _nested("reduce", ranks, root, group, inner, outer)


@cost(lg(g) + lg(h), t / h * S)
def gather(
    ranks: int, root: int, *, group: int | str | None = None, inner: str = "binomial", outer: str = "binomial"
) -> Schedule:
    """Returns `inner` to a rank of each group, then `outer` to the root. ValueError where `group` does not divide n."""
    return _nested("gather", ranks, root, group, inner, outer)


@cost(lg(g) + lg(h), (n - 1) / n * S)
def scatter(
    ranks: int, root: int, *, group: int | str | None = None, inner: str = "binomial", outer: str = "binomial"
) -> Schedule:
    """Returns `outer` to a rank of each group, then `inner`. ValueError where `group` does not divide n."""
    return _nested("scatter", ranks, root, group, inner, outer)


@cost(h - (g > 1) + (g > 1) * g * b, (h - 1) / h * S + (g - 1) / g * S)
def all_to_all(
    ranks: int, *, group: int | str | None = None, inner: str = "pairwise", outer: str = "pairwise"
) -> Schedule:
    """Returns `outer` between ranks of one index, all blocks for a group in one message, then `inner`. ValueError where
    `group` does not divide n."""
    return _nested("all_to_all", ranks, None, group, inner, outer)


def _nested(collective: str, ranks: int, root: int | None, group: int | str | None, inner: str, outer: str) -> Schedule:
    what, size = (collective, find(inner), find(outer)), default_group(ranks) if group is None else group
    nested = nest_in_hosts(*what, read(size, ranks), root) if isinstance(size, str) else nest(*what, ranks, size, root)
    return replace(nested, name="hierarchical")
