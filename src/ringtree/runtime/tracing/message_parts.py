"""Recorded messages as channels: in each, the k-th WAIT takes the k-th SEND from one rank to another.

Messages arrive in the order in which they were sent, but a program takes them by tag in any order. Each message has a
number, which its two events share. Those that were taken in the order of sending share one
channel; what was taken after something that was sent later has another.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ringtree.ir.trace import Event
from ringtree.runtime.engines.protocols import Recorded

Rows = NDArray[np.int64]
LONE = 1 << 20
"""The level of what was recorded at one end only: of its SENDs, and the next one that of its WAITs."""


def channels_apart(recorded: Mapping[int, Recorded]) -> tuple[dict[int, Rows], dict[int, Recorded]]:
    """The position of each event among a group's channels, by rank in the group; and the events without message
    numbers, and with every SEND before the end of the WAIT that took it, for clocks differ by some tens of ns.
    `recorded`: the events by rank in the group; peers are ranks of the group too, and the column `chunk` has the
    messages' numbers."""
    level = {rank: np.full(len(mine.kind), LONE) + (mine.kind == Event.WAIT) for rank, mine in recorded.items()}
    apart = dict(recorded)
    start_s = {rank: mine.start_s.copy() for rank, mine in recorded.items()}
    for rank, mine in recorded.items():
        level[rank][mine.kind == Event.STALL] = 0
    for source, sender in recorded.items():
        for target in np.unique(sender.peer[sender.kind == Event.SEND]).tolist():
            if (receiver := recorded.get(target)) is None:
                continue
            sends = np.flatnonzero((sender.kind == Event.SEND) & (sender.peer == target))
            waits = np.flatnonzero((receiver.kind == Event.WAIT) & (receiver.peer == source))
            _, a, b = np.intersect1d(sender.chunk[sends], receiver.chunk[waits], return_indices=True)
            sends, waits = sends[a], waits[b]
            level[source][sends] = level[target][waits] = _rising(waits)
            start_s[source][sends] = np.minimum(sender.start_s[sends], receiver.end_s[waits])
    for rank, mine in recorded.items():
        apart[rank] = mine._replace(start_s=start_s[rank], chunk=np.full_like(mine.chunk, -1))
    return level, apart


def _rising(taken: NDArray[np.intp]) -> Rows:
    """Numbers such that what has one number rises, as few as there can be."""
    level = np.zeros(len(taken), np.int64)
    if (np.diff(taken) > 0).all():
        return level
    last: list[int] = []  # the last of each level, negated: the levels' last ones fall
    for i, position in enumerate(taken.tolist()):
        at = bisect_left(last, -position)
        level[i] = at
        last[at : at + 1] = [-position]
    return level
