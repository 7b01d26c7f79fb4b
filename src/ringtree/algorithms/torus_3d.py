"""3D torus: what torus does, along three axes; all_reduce in six rotated copies, so that all six ports are busy.

The other two are one copy, as torus's: six would be 6*(n-1) messages a rank for x+y+z-3, 378 for 9 at n = 64.

all_reduce: 2*(x+y+z-3) rounds, 2*(n-1)/n*S bytes
reduce_scatter: x+y+z-3 rounds, (n-1)/n*S bytes
all_gather: x+y+z-3 rounds, (n-1)/n*S bytes

When: ranks that are the nodes of a three-dimensional torus, with links to six neighbours each.

Source: Sack, Gropp: Collective algorithms for multiported torus networks, 2015
"""

from __future__ import annotations

from dataclasses import replace

from ringtree.algorithms import torus
from ringtree.ir.schedule import Schedule


def terms(ranks: int) -> dict[str, int]:
    """n = x*y*z, as near to a cube as can be"""
    return dict(zip("xyz", torus.shape(ranks, 3), strict=True))


def all_reduce(ranks: int) -> Schedule:
    return replace(torus.all_reduce(ranks, 3), name="torus_3d")


def reduce_scatter(ranks: int) -> Schedule:
    return replace(torus.reduce_scatter(ranks, 3), name="torus_3d")


def all_gather(ranks: int) -> Schedule:
    return replace(torus.all_gather(ranks, 3), name="torus_3d")
