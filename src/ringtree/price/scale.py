"""Schedules over any number of ranks, at many sizes.

What is too long to write out has closed forms (`closed`); what is written out is priced in as many pieces as suit the
size, or at many sizes at once. Of many ranks the first SAMPLE stand for all: nodes are alike.
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
"""Into more pieces a chunk is not cut, nor into shorter ones where a message costs nothing."""
LONG_NBYTES = 1 << 40
"""So long that latency counts no more."""


class Sends:
    """Who sends to whom at once: sets of (source, target, share of a vector). By pair: the latency, and the seconds for
    each byte of the vector on the fullest link of its route."""

    def __init__(self, topology: Topology, *sets: tuple[Ints, Ints, float]) -> None:
        source, target = (np.concatenate([s[end] for s in sets]) for end in (0, 1))
        share = np.concatenate([np.full(len(s[0]), s[2]) for s in sets])
        first, link = routes(topology, source, target)
        pair = np.repeat(np.arange(len(source)), np.diff(first))
        used, place = np.unique(link, return_inverse=True)
        full_s = np.bincount(place, share[pair], len(used)) / topology.bandwidth_Bps[used]
        self.latency_s = np.add.reduceat(topology.latency_s[link], first[:-1]) + 2 * topology.message_s
        self.per_byte_s = np.maximum.reduceat(full_s[place], first[:-1])

    def seconds(self, nbytes: float) -> float:
        """Until the last pair is done."""
        return float((self.latency_s + self.per_byte_s * nbytes).max())


class InPieces:
    """A schedule whose ranks pass on what they have received, cut as suits the size: the first piece goes all the way,
    the others follow as closely as the fullest link and the busiest rank allow. Two ranks that send to one another
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
        """Into how many pieces each chunk is cut: as many as cost least."""
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
    """All that the first ranks send to one another, in one round: so it is once all pieces are under way."""
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
    """`seconds` at each of these sizes, in rising order. A price is the latest of many sums, each a line over the size:
    it is convex, so where three prices lie on a line all between do."""
    priced = Priced(schedule, topology)
    found = {size: priced.seconds(size) for size in {sizes[0], sizes[-1]}}

    def between(low: int, high: int) -> None:
        if high - low < 2:
            return
        a, b, middle = sizes[low], sizes[high], (low + high) // 2
        line = [found[a] + (found[b] - found[a]) * (s - a) / (b - a) for s in sizes[low : high + 1]]
        found[sizes[middle]] = exact = priced.seconds(sizes[middle])
        if abs(exact - line[middle - low]) <= 1e-9 * exact:
            found.update(zip(sizes[low + 1 : high], line[1:-1], strict=True))
            return
        between(low, middle)
        between(middle, high)

    between(0, len(sizes) - 1)
    return [found[size] for size in sizes]


def work_s(topology: Topology, nbytes: float, reduce: bool = False, steps: int = 1) -> float:
    """A rank's own, to add or to copy so many bytes."""
    return steps * topology.step_s + nbytes / (topology.reduce_Bps if reduce else topology.copy_Bps)
