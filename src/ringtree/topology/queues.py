"""The messages that wait in the queues of links, where a topology has its links serve first come, first served."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ringtree.topology.graph import Topology

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


def in_queues(topology: Topology, source: Ints, target: Ints, first: Ints, link: Ints) -> Bools:
    """Whether the messages of each pair of ranks wait in the queues of links; the links of pair k are
    link[first[k] : first[k + 1]]. Messages between hosts do, and all that share a link with messages which do: a link
    has one bandwidth, and could not serve some in turn and the others in parts."""
    waits: Bools = np.zeros(len(source), np.bool_)
    if not topology.fifo_between_hosts:
        return waits
    waits |= topology.hosts[source] != topology.hosts[target]
    pair = np.repeat(np.arange(len(source)), np.diff(first))
    while True:
        queue = np.zeros(topology.links, np.bool_)
        queue[link[waits[pair]]] = True
        joined = pair[queue[link] & ~waits[pair]]
        if not len(joined):
            return waits
        waits[joined] = True
