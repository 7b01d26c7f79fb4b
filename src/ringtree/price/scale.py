"""Algorithms over any number of ranks, at many sizes.

Closed forms, where a schedule would be too long to write out: an algorithm is told by the patterns of its rounds, who
sends how much to whom at once. A pattern costs the latency of its farthest pair and what its fullest link carries, as
in `seconds`, to which tests hold the forms on small counts. Of many ranks the first SAMPLE stand for all: nodes are
alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations_with_replacement
from math import prod, sqrt

import numpy as np
from numpy.typing import NDArray

from ringtree.ir.schedule import Block, Schedule, Transfers
from ringtree.price.pricing import Priced
from ringtree.price.rounds import distinct
from ringtree.price.routes import routes
from ringtree.topology import Topology

Ints = NDArray[np.int64]
Seconds = Callable[[int], float]
"""How long a vector of so many bytes takes."""
Form = Callable[[Topology, int], Seconds]
"""For so many of a topology's ranks, which are its first hosts, or a part of one."""
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


def ring(topology: Topology, ranks: int, *, adds: bool = True, copies: bool = True) -> Seconds:
    """A lap that adds, a lap that copies, n-1 rounds each."""
    some = np.arange(min(ranks, SAMPLE))
    hops = Sends(topology, (some, (some + 1) % ranks, 1 / ranks))
    return lambda nbytes: _laps_s(topology, hops, ranks, nbytes, [True] * adds + [False] * copies)


def _laps_s(topology: Topology, hops: Sends, members: int, nbytes: int, laps: Sequence[bool]) -> float:
    """Laps of a ring, each of which adds or copies. The chunk that goes all the way pays every hop; the one before the
    narrowest hop waits there every round: the later of the two."""
    hop_s = hops.latency_s + hops.per_byte_s * nbytes
    wire_s = float(hops.per_byte_s.max()) * nbytes
    own_s = [_work_s(topology, nbytes / members, adds) for adds in laps]
    moving_s = len(laps) * (float(hop_s.mean()) * members - float(hop_s.min())) + (members - 1) * sum(own_s)
    held_s = (members - 1) * sum(max(wire_s, 2 * topology.message_s + work_s) for work_s in own_s)
    staying_s = float(hop_s.max()) + own_s[-1] + held_s - max(wire_s, own_s[-1])
    return max(moving_s, staying_s) + _work_s(topology, nbytes / members)


def grid(topology: Topology, ranks: int) -> Seconds:
    """Rings along rows, then columns, and back: four copies of a quarter each at once, rows or columns first and either
    way round."""
    extents = _factors(ranks)
    axes = [(extent, prod(extents[:k])) for k, extent in enumerate(extents) if extent > 1]
    orders = [axes[k:] + axes[:k] for k in range(len(axes))]
    copies, some = 2 * len(orders), np.arange(min(ranks, SAMPLE))
    plans = []
    for order in orders:
        widths = np.cumprod([1, *(extent for extent, _ in order)]).tolist()
        plans.append([(*axis, width) for axis, width in zip(order, widths, strict=False) for _ in range(axis[0] - 1)])
    counts: dict[tuple[tuple[int, int, int], ...], int] = {}
    for now in zip(*plans, strict=True):
        counts[now] = counts.get(now, 0) + 1
    rounds = []
    for now, times in counts.items():
        sets = []
        for extent, apart, width in now:
            along = some // apart % extent
            for way in (1, -1):
                sets.append((some, some + ((along + way) % extent - along) * apart, width / ranks / copies))
        rounds.append((Sends(topology, *sets), times, sum(2 * width for *_, width in now) / ranks / copies))

    def seconds(nbytes: int) -> float:
        return sum(
            times
            * sum(sends.seconds(nbytes) + _work_s(topology, nbytes * share, reduce, copies) for reduce in (True, False))
            for sends, times, share in rounds
        )

    return seconds


def hierarchical(topology: Topology, ranks: int) -> Seconds:
    """A ring inside each host, to add up and in the end to copy; halving and doubling between the ranks of one place,
    each on its share. Hosts beyond a power of two are folded into their neighbours."""
    group = _group(topology, ranks)
    hosts = ranks // group
    power = 1 << (hosts.bit_length() - 1)
    rounds = list[tuple[Sends, float]]()  # with their share of the vector
    some = np.arange(min(ranks, max(SAMPLE // group, 1) * group))
    inside = Sends(topology, (some, some // group * group + (some + 1) % group, 1 / group)) if group > 1 else None
    active = np.setdiff1d(np.arange(hosts), np.arange(hosts - power) * 2)
    chosen = np.arange(min(power, max(SAMPLE // group, 1)))
    place = np.arange(group)

    def between(host: Ints, other: Ints, share: float) -> tuple[Sends, float]:
        ends = [(h[:, None] * group + place).ravel() for h in (host, other)]
        return Sends(topology, (ends[0], ends[1], share / group)), share / group

    if hosts > power:
        folded = chosen[chosen < hosts - power] * 2
        rounds.append(between(folded, folded + 1, 1.0))
    rounds += [
        between(active[chosen], active[chosen ^ d], d / power) for d in (1 << k for k in range(power.bit_length() - 1))
    ]

    def seconds(nbytes: int) -> float:
        total_s = _laps_s(topology, inside, group, nbytes, [True, False]) if inside else 0.0
        for sends, share in rounds:
            total_s += sum(sends.seconds(nbytes) + _work_s(topology, nbytes * share, adds) for adds in (True, False))
        return total_s

    return seconds


CLOSED: Mapping[str, Mapping[str, Form]] = {
    "all_reduce": {"ring": ring, "torus": grid, "hierarchical": hierarchical},
    "reduce_scatter": {"ring": lambda topology, ranks: ring(topology, ranks, copies=False)},
    "all_gather": {"ring": lambda topology, ranks: ring(topology, ranks, adds=False)},
}
"""By collective and algorithm."""
ANY_SIZE = (*CLOSED["all_reduce"], "binary_tree", "double_tree", "parameter_server")
"""Those whose price takes no longer than O(ranks): the closed forms, and schedules with so many transfers."""


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
    told = source * schedule.participants + target
    at = np.minimum(np.searchsorted(asked, told), len(asked) - 1)
    both = distinct(told[(asked[at] == told) & (source != target)])
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
        found[sizes[middle]] = told = priced.seconds(sizes[middle])
        if abs(told - line[middle - low]) <= 1e-9 * told:
            found.update(zip(sizes[low + 1 : high], line[1:-1], strict=True))
            return
        between(low, middle)
        between(middle, high)

    between(0, len(sizes) - 1)
    return [found[size] for size in sizes]


def _work_s(topology: Topology, nbytes: float, reduce: bool = False, steps: int = 1) -> float:
    """A rank's own, to add or to copy so many bytes."""
    return steps * topology.step_s + nbytes / (topology.reduce_Bps if reduce else topology.copy_Bps)


def _group(topology: Topology, ranks: int) -> int:
    """Ranks of the first host, of those that there are."""
    group = int(np.sum(topology.hosts[:ranks] == topology.hosts[0]))
    if ranks % group:
        raise ValueError(f"{ranks} ranks on hosts of {group}: expected a multiple")
    return group


def _factors(ranks: int) -> tuple[int, ...]:
    """Two factors of the least sum, the lesser first."""
    divisors = [d for d in range(1, ranks + 1) if ranks % d == 0]
    return min((f for f in combinations_with_replacement(divisors, 2) if prod(f) == ranks), key=sum)
