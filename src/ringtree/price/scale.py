"""Schedules over any number of ranks, at many sizes.

A schedule that is too long to write out has a closed form (`closed`); a schedule that is written out is priced in the
best number of pieces for the size, or at many sizes at once. The first SAMPLE of many ranks stand for all: nodes are
alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from ringtree.ir.schedule import Block, Schedule, Transfers
from ringtree.price.pricing import Priced
from ringtree.price.rounds import distinct
from ringtree.price.routes import routes
from ringtree.topology import Topology

Ints = NDArray[np.int64]
Seconds = Callable[[int], float]
"""Seconds as a function of the bytes of the vector."""
SAMPLE = 1024
MOST_PIECES = 4096
SHORTEST_NBYTES = 64 << 10
"""The most pieces of a chunk, and the least bytes of a piece where a message costs nothing."""
LONG_NBYTES = 1 << 40
"""Bytes of a vector so long that latency is negligible."""


class Sends:
    """Simultaneous sends: sets of (source, target, share of a vector). By pair: the work of either end, the latency
    with both ends' work, and the seconds for each byte of the vector on the fullest link of its route."""

    def __init__(self, topology: Topology, *sets: tuple[Ints, Ints, float]) -> None:
        source, target = (np.concatenate([s[end] for s in sets]) for end in (0, 1))
        share = np.concatenate([np.full(len(s[0]), s[2]) for s in sets])
        first, link = routes(topology, source, target)
        pair = np.repeat(np.arange(len(source)), np.diff(first))
        used, index = np.unique(link, return_inverse=True)
        full_s = np.bincount(index, share[pair], len(used)) / topology.bandwidth_Bps[used]
        self.own_s = topology.message_work_s(source, target)
        self.latency_s = np.add.reduceat(topology.latency_s[link], first[:-1]) + 2 * self.own_s
        self.per_byte_s = np.maximum.reduceat(full_s[index], first[:-1])

    def seconds(self, nbytes: float) -> float:
        """Seconds until the last pair is done."""
        return float((self.latency_s + self.per_byte_s * nbytes).max())


class InPieces:
    """A schedule whose ranks forward received chunks, cut into pieces for the size: the first piece takes the whole
    route, the others follow at the pace of the fullest link and the busiest rank. Two ranks that send to one another
    also wait for one another, a latency for every piece."""

    def __init__(self, schedule: Schedule, topology: Topology) -> None:
        priced, long = Priced(schedule, topology), LONG_NBYTES
        waits_s = _there_and_back_s(schedule, topology)
        self._first_s, idle_s = priced.seconds(0), priced.work_s(0)
        self._first_per_byte_s = (priced.seconds(long) - self._first_s) / long
        full_s, own_s = priced.busiest(long)[1] / long, (priced.work_s(long) - idle_s) / long
        self._next_s = waits_s + idle_s
        self._next_per_byte_s = max(full_s, own_s)
        if waits_s:
            at_once = Priced(_at_once(schedule), topology)
            self._next_per_byte_s = (at_once.seconds(long) - at_once.seconds(0)) / long
        if waits_s and schedule.rounds <= 2:  # a piece goes there and back before the next one may
            self._next_s, self._next_per_byte_s = self._first_s, self._first_per_byte_s

    def count(self, nbytes: int) -> int:
        """The number of pieces of each chunk with the least time."""
        saved_s = (self._first_per_byte_s - self._next_per_byte_s) * nbytes
        best = sqrt(max(saved_s, 0.0) / self._next_s) if self._next_s else nbytes / SHORTEST_NBYTES
        return min(max(round(best), 1), MOST_PIECES)

    def seconds(self, nbytes: int) -> float:
        """Returns the seconds for a whole vector of `nbytes`, cut into `count(nbytes)` pieces."""
        count = self.count(nbytes)
        piece = nbytes / count
        rest_s = (count - 1) * (self._next_s + self._next_per_byte_s * piece)
        return self._first_s + self._first_per_byte_s * piece + rest_s


def _at_once(schedule: Schedule) -> Schedule:
    """All sends of the first ranks to one another as one round: the load once all pieces are under way."""
    rows = Transfers.concatenate([b.rows for b in schedule.blocks])
    some = rows.take((rows.source < SAMPLE) & (rows.target < SAMPLE))
    return replace(schedule, blocks=(Block(replace(some, round=np.zeros_like(some.round))),))


def _there_and_back_s(schedule: Schedule, topology: Topology) -> float:
    """The longest mean latency between two ranks that send to one another; 0 where none do."""
    rows = [b.rows for b in schedule.blocks]
    source, target = (np.concatenate([getattr(r, end) for r in rows]).astype(np.int64) for end in ("source", "target"))
    some = np.linspace(0, len(source) - 1, min(len(source), SAMPLE)).astype(np.int64)
    asked = distinct(target[some] * schedule.participants + source[some])
    pairs = source * schedule.participants + target
    at = np.minimum(np.searchsorted(asked, pairs), len(asked) - 1)
    both = distinct(pairs[(asked[at] == pairs) & (source != target)])
    if not len(both):
        return 0.0
    ends = np.divmod(both, schedule.participants)
    out, home = (Sends(topology, (a, b, 0.0)).latency_s for a, b in (ends, ends[::-1]))
    return float((out + home).max() / 2)


def at_sizes(schedule: Schedule, topology: Topology, sizes: Sequence[int]) -> list[float]:
    """`seconds` at each of these sizes, in any order. A time is the maximum of many lines over the size, so convex:
    where three times lie on a line, all between them do."""
    priced, rising = Priced(schedule, topology), sorted(set(sizes))
    found = {size: priced.seconds(size) for size in {rising[0], rising[-1]}}

    def between(low: int, high: int) -> None:
        if high - low < 2:
            return
        a, b, middle = rising[low], rising[high], (low + high) // 2
        line = [found[a] + (found[b] - found[a]) * (s - a) / (b - a) for s in rising[low : high + 1]]
        found[rising[middle]] = exact = priced.seconds(rising[middle])
        if abs(exact - line[middle - low]) <= 1e-9 * exact:
            found.update(zip(rising[low + 1 : high], line[1:-1], strict=True))
            return
        between(low, middle)
        between(middle, high)

    between(0, len(rising) - 1)
    return [found[size] for size in sizes]


def work_s(topology: Topology, nbytes: float, reduce: bool = False, steps: int = 1) -> float:
    """Seconds of a rank's own work to add or to copy `nbytes`."""
    return steps * topology.step_s + nbytes / (topology.reduce_Bps if reduce else topology.copy_Bps)
