"""Parameter server, sharded: every rank is the server of its share. The bytes of a ring, in two rounds.

What it sends is what two_shot sends; its sums begin with the server's own.

all_reduce: 2 rounds, 2*(n-1)/n*S bytes

When: where servers are wanted after all, as a baseline: else two_shot, which sends the same.

Source: Li and others: Scaling distributed machine learning with the parameter server, 2014
"""

from __future__ import annotations

from dataclasses import replace

from ringtree.algorithms import parameter_server
from ringtree.ir.schedule import Schedule


def all_reduce(ranks: int) -> Schedule:
    return replace(parameter_server.all_reduce(ranks, servers=ranks), name="sharded_server")
