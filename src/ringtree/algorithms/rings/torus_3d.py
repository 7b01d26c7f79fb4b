"""3D torus: the algorithm of torus along three axes; all_reduce in six rotated copies, so that all six ports are busy.

reduce_scatter and all_gather are one copy, as in torus: with six copies a rank would send 6*(n-1) messages instead of
x+y+z-3: 378 instead of 9 at n = 64.
"""

from __future__ import annotations

from dataclasses import replace

from ringtree.algorithms.cost import S, Term, cost, n
from ringtree.algorithms.rings import torus
from ringtree.ir.schedule import Schedule

SOURCE = "Sack, Gropp: Collective algorithms for multiported torus networks, 2015"
WHEN = "ranks that are the nodes of a three-dimensional torus, with links to six neighbours each."

x = Term("x", lambda ranks: torus.shape(ranks, 3)[0], "n = x*y*z, as near to a cube as can be")
y = Term("y", lambda ranks: torus.shape(ranks, 3)[1])
z = Term("z", lambda ranks: torus.shape(ranks, 3)[2])


@cost(2 * (x + y + z - 3), 2 * (n - 1) / n * S)
def all_reduce(ranks: int) -> Schedule:
    """Returns torus's all_reduce over three axes, six copies of n chunks."""
    return replace(torus.all_reduce(ranks, 3), name="torus_3d")


@cost(x + y + z - 3, (n - 1) / n * S)
def reduce_scatter(ranks: int) -> Schedule:
    """Returns torus's reduce_scatter over three axes, n chunks."""
    return replace(torus.reduce_scatter(ranks, 3), name="torus_3d")


@cost(x + y + z - 3, (n - 1) / n * S)
def all_gather(ranks: int) -> Schedule:
    """Returns torus's all_gather over three axes, n chunks."""
    return replace(torus.all_gather(ranks, 3), name="torus_3d")
