"""Parameter server, central: every rank sends its vector to rank 0, which sends back the sum. The baseline.

The server sends n-1 times the vector where a ring's ranks send it less than twice; the other algorithms avoid that.
Option: `servers` s, the ranks 0 … s-1, each for an s-th of the vector; with n of them (sharded_server) none is the
bottleneck.
"""

from __future__ import annotations

import numpy as np

from ringtree.algorithms.cost import S, cost, n
from ringtree.ir.schedule import Block, Schedule, Transfers

SOURCE = "Li and others: Scaling distributed machine learning with the parameter server, 2014"
WHEN = "as the baseline that shows the bottleneck of a central server."


@cost(2, (n - 1) * S)
def all_reduce(ranks: int, *, servers: int = 1) -> Schedule:
    """Returns a push to `servers` ranks, then a pull from them; ValueError unless 1 <= servers <= n."""
    if not 1 <= servers <= ranks:
        raise ValueError(f"parameter_server: {servers} servers among {ranks} ranks; expected 1 to {ranks}")
    # Each worker's servers begin after it, so that not all ranks send to the same one first.
    worker = np.repeat(np.arange(ranks), servers)
    server = (worker + 1 + np.tile(np.arange(servers), ranks)) % servers
    worker, server = worker[worker != server], server[worker != server]
    push = Transfers.of(worker, server, server, reduce=True)
    pull = Transfers.of(server, worker, server)
    blocks = (Block(push), Block(pull)) if ranks > 1 else ()
    return Schedule("parameter_server", "all_reduce", ranks, servers, blocks)
