"""Locality tree: a binomial tree between groups of consecutive ranks first, then one inside each group.

A subtree per group: as many rounds as a binomial tree over all or one more, but each group is entered or left once
only, where a binomial tree that knows no groups crosses between them as often as it likes. Option: `group` (a divisor
of n), by default hierarchical's.

all_reduce: 2*(lg(g)+lg(h)) rounds, (lg(g)+lg(h))*S bytes
broadcast: lg(g)+lg(h) rounds, (lg(g)+lg(h))*S bytes
reduce: lg(g)+lg(h) rounds, S bytes

When: short vectors over hosts or sockets where each message between them is dear.

Source: Kielmann and others: MagPIe: MPI's collective communication operations for clustered wide area systems, 1999
"""

from __future__ import annotations

from dataclasses import replace

from ringtree.algorithms import hierarchical
from ringtree.ir.schedule import Schedule
from ringtree.transform import reverse


def terms(ranks: int) -> dict[str, int]:
    """g, h: as hierarchical's"""
    return hierarchical.terms(ranks)


def all_reduce(ranks: int, *, group: int | None = None) -> Schedule:
    return reduce(ranks, 0, group=group).then(broadcast(ranks, 0, group=group), "all_reduce")


def broadcast(ranks: int, root: int, *, group: int | None = None) -> Schedule:
    """Between the ranks that have the root's index in their group, then inside."""
    tree = hierarchical.broadcast(ranks, root, group=group, inner="binomial", outer="binomial")
    return replace(tree, name="locality_tree")


def reduce(ranks: int, root: int, *, group: int | None = None) -> Schedule:
    return reverse(broadcast(ranks, root, group=group))
