"""Parameter server, sharded: every rank is the server of its share. The bytes of a ring, in two rounds.

Its sends are those of two_shot; its sums begin with the server's own.
"""

from __future__ import annotations

from dataclasses import replace

from ringtree.algorithms.cost import S, cost, n
from ringtree.algorithms.direct import parameter_server
from ringtree.ir.schedule import Schedule

SOURCE = "Li and others: Scaling distributed machine learning with the parameter server, 2014"
WHEN = "where servers are wanted after all, as a baseline: else two_shot, which sends the same."


@cost(2, 2 * (n - 1) / n * S)
def all_reduce(ranks: int) -> Schedule:
    """Returns parameter_server's schedule with all n ranks as servers."""
    return replace(parameter_server.all_reduce(ranks, servers=ranks), name="sharded_server")
