"""Hierarchical: one algorithm inside groups of consecutive ranks, another between the groups (transform.nest).

What is sent between groups is 1/g of the vector per rank where the collective can be sharded. Options: `group` (the
size of a group, a divisor of n), `inner` and `outer` (names of algorithms). By default g is the greatest divisor of n
that is at most its square root, inside is a ring, between is halving-doubling, for broadcast and reduce a chain and a
double tree; a prime n has no groups. With h = n/g groups and q the largest power of two that is at most h:

all_reduce: 2*(g-1)+2*lg(q)+2*(h>q) rounds, 2*(g-1)/g*S+(2*(q-1)/q+(h>q))*S/g bytes
reduce_scatter: g-1+lg(q)+2*(h>q) rounds, (g-1)/g*S+(h-1+(h>q))/h*S/g bytes
all_gather: g-1+lg(q)+2*(h>q) rounds, at most (g-1)/g*S+(q-1+min(q-1,(h-q)*lg(q))+(h>q)*h)/h*S/g bytes
broadcast: g-1+lg(h) rounds, S+(g>1)*S bytes, pipelines
reduce: g-1+lg(h) rounds, S bytes, pipelines

When: ranks on several hosts, or several sockets, where links between them are slower than inside.

Source: Karonis and others: Exploiting hierarchy in parallel computer networks to optimize collective operation
performance, 2000
"""

from __future__ import annotations

from dataclasses import replace
from math import isqrt

from ringtree.ir.schedule import Schedule
from ringtree.transform import Builder, nest


def all_reduce(
    ranks: int, *, group: int | None = None, inner: str = "ring", outer: str = "halving_doubling"
) -> Schedule:
    return _nested("all_reduce", ranks, None, group, inner, outer)


def reduce_scatter(
    ranks: int, *, group: int | None = None, inner: str = "ring", outer: str = "halving_doubling"
) -> Schedule:
    return _nested("reduce_scatter", ranks, None, group, inner, outer)


def all_gather(
    ranks: int, *, group: int | None = None, inner: str = "ring", outer: str = "halving_doubling"
) -> Schedule:
    return _nested("all_gather", ranks, None, group, inner, outer)


def broadcast(
    ranks: int, root: int, *, group: int | None = None, inner: str = "chain", outer: str = "double_tree"
) -> Schedule:
    return _nested("broadcast", ranks, root, group, inner, outer)


def reduce(
    ranks: int, root: int, *, group: int | None = None, inner: str = "chain", outer: str = "double_tree"
) -> Schedule:
    return _nested("reduce", ranks, root, group, inner, outer)


def terms(ranks: int) -> dict[str, int]:
    """g ranks a group, h = n/g groups, q: the largest power of two up to h"""
    group = default_group(ranks)
    return {"g": group, "h": ranks // group, "q": 1 << ((ranks // group).bit_length() - 1)}


def default_group(ranks: int) -> int:
    """The greatest divisor of `ranks` that is at most its square root."""
    return max(g for g in range(1, isqrt(ranks) + 1) if ranks % g == 0)


def _nested(collective: str, ranks: int, root: int | None, group: int | None, inner: str, outer: str) -> Schedule:
    size = default_group(ranks) if group is None else group
    return replace(nest(collective, _named(inner), _named(outer), ranks, size, root), name="hierarchical")


def _named(name: str) -> Builder:
    from ringtree.algorithms.registry import find  # late: the registry lists this file

    return find(name)
