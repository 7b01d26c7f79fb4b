"""Closed forms, where a schedule would be too long to write out: the source, target and share of all sends of a round.

A step costs the latency of its farthest pair and the bytes of its fullest link, as in `seconds`; tests hold the forms
to `seconds` on small counts. No form names an algorithm: it stands for every algorithm that sends the same in every
round, as schedules over a few ranks show.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from math import prod

import numpy as np

from ringtree.ir.schedule import Schedule
from ringtree.price.scale import SAMPLE, Ints, Seconds, Sends, work_s
from ringtree.topology import Topology

Set = tuple[Ints, Ints, float]
"""Sources, targets, and the share of a vector that each sends."""
Round = frozenset[tuple[int, int, bool, float]]
"""(source, target, whether it is added, share of a vector) of all simultaneous sends."""


@dataclass(frozen=True, slots=True)
class AlikeRounds:
    """Rounds that are alike: `sets` at once, `times` times. `lap`: a ring's, in which each round passes on the chunks
    of the previous round."""

    sets: tuple[Set, ...]
    times: int = 1
    lap: bool = False


Steps = Callable[[int, int, int], Sequence[AlikeRounds]]
"""(ranks, ranks of a host, most ranks) -> the steps, with the sends of the first ranks alone."""


@dataclass(frozen=True, slots=True)
class ClosedForm:
    """Steps that add, then the same ones reversed that copy, except laps, which continue in the same direction; or one
    of the two. The reversed steps take as long."""

    steps: Steps
    adds: bool = True
    copies: bool = True

    def __call__(self, topology: Topology, ranks: int) -> Seconds:
        """Returns a function from bytes of the whole vector to seconds."""
        host = int(np.sum(topology.hosts[:ranks] == topology.hosts[0]))
        passes = [True] * self.adds + [False] * self.copies
        steps = [(step, Sends(topology, *step.sets)) for step in self.steps(ranks, host, SAMPLE)]

        def seconds(nbytes: int) -> float:
            total_s = 0.0
            for step, sends in steps:
                if step.lap:
                    total_s += _laps_s(topology, sends, step.times + 1, nbytes, passes)
                    continue
                share, ranges = sum(share for *_, share in step.sets), len(step.sets)
                total_s += step.times * sum(
                    sends.seconds(nbytes) + work_s(topology, nbytes * share, adds, ranges) for adds in passes
                )
            return total_s

        return seconds

    def rounds(self, ranks: int, host: int) -> Counter[Round]:
        """Every round, and its number of repetitions."""
        found = Counter[Round]()
        for step in self.steps(ranks, host, ranks):
            for adds in [True] * self.adds + [False] * self.copies:
                way = 1 if adds or step.lap else -1
                pairs = [(*pair, adds, s[2]) for s in step.sets for pair in zip(*s[:2][::way], strict=True)]
                found[_round(pairs)] += step.times
        return found


def _round(pairs: Iterable[tuple[int, int, bool, float]]) -> Round:
    """The simultaneous sends of a round: sources, targets, whether each is added, and the share of the vector in
    all."""
    shares = dict[tuple[int, int, bool], float]()
    for *pair, share in pairs:
        key = pair[0], pair[1], bool(pair[2])
        shares[key] = shares.get(key, 0.0) + share
    return frozenset((*key, round(share, 9)) for key, share in shares.items())


def _lap(ranks: int, host: int, most: int) -> list[AlikeRounds]:
    """A ring: each rank sends an n-th of the vector to the next rank, n-1 times."""
    some = np.arange(min(ranks, most))
    return [AlikeRounds(((some, (some + 1) % ranks, 1 / ranks),), ranks - 1, lap=True)]


def _laps_s(topology: Topology, hops: Sends, members: int, nbytes: int, laps: Sequence[bool]) -> float:
    """Laps of a ring, each of which adds or copies. The chunk that goes all round pays every hop; the chunk before the
    narrowest hop waits there every round. The later of the two decides."""
    hop_s = hops.latency_s + hops.per_byte_s * nbytes
    wire_s = float(hops.per_byte_s.max()) * nbytes
    own_s = [work_s(topology, nbytes / members, adds) for adds in laps]
    moving_s = len(laps) * (float(hop_s.mean()) * members - float(hop_s.min())) + (members - 1) * sum(own_s)
    ends_s = float((hops.own_s + np.roll(hops.own_s, 1)).max())  # a rank's message from the one before, and its own
    held_s = (members - 1) * sum(max(wire_s, ends_s + work_s) for work_s in own_s)
    staying_s = float(hop_s.max()) + own_s[-1] + held_s - max(wire_s, own_s[-1])
    return max(moving_s, staying_s) + work_s(topology, nbytes / members)


def _grid(ranks: int, host: int, most: int) -> list[AlikeRounds]:
    """Rings along rows, then columns: four copies of a quarter each at once, rows or columns first, in both
    directions."""
    extents = _factors(ranks)
    axes = [(extent, prod(extents[:k])) for k, extent in enumerate(extents) if extent > 1]
    orders = [axes[k:] + axes[:k] for k in range(len(axes))]
    copies, some = 2 * len(orders), np.arange(min(ranks, most))
    plans = []
    for order in orders:
        widths = np.cumprod([1, *(extent for extent, _ in order)]).tolist()
        plans.append([(*axis, width) for axis, width in zip(order, widths, strict=False) for _ in range(axis[0] - 1)])
    steps = []
    for now, times in Counter(zip(*plans, strict=True)).items():
        sets = []
        for extent, apart, width in now:
            along = some // apart % extent
            for way in (1, -1):
                sets.append((some, some + ((along + way) % extent - along) * apart, width / ranks / copies))
        steps.append(AlikeRounds(tuple(sets), times))
    return steps


def _groups(ranks: int, host: int, most: int) -> list[AlikeRounds]:
    """A ring inside each host; halving and doubling between the ranks of one position, each on its share. Hosts beyond
    a power of two are folded into their neighbours."""
    if ranks % host:
        raise ValueError(f"{ranks} ranks on hosts of {host}: expected a multiple")
    hosts, few = ranks // host, max(most // host, 1)
    power = 1 << (hosts.bit_length() - 1)
    some, position = np.arange(min(ranks, few * host)), np.arange(host)
    active = np.setdiff1d(np.arange(hosts), np.arange(hosts - power) * 2)
    chosen = np.arange(min(power, few))

    def between(one: Ints, other: Ints, share: float) -> AlikeRounds:
        source, target = ((h[:, None] * host + position).ravel() for h in (one, other))
        return AlikeRounds(((source, target, share / host),))

    inside = (some, some // host * host + (some + 1) % host, 1 / host)
    steps = [AlikeRounds((inside,), host - 1, lap=True)] if host > 1 else []
    if hosts > power:
        folded = chosen[chosen < hosts - power] * 2
        steps.append(between(folded, folded + 1, 1.0))
    distances = (1 << k for k in range(power.bit_length() - 1))
    return steps + [between(active[chosen], active[chosen ^ d], d / power) for d in distances]


CLOSED = (
    ClosedForm(_lap),
    ClosedForm(_lap, copies=False),
    ClosedForm(_lap, adds=False),
    ClosedForm(_grid),
    ClosedForm(_groups),
)
"""The collectives that are priced without their schedule."""
RECOGNIZED = ((12, 2), (20, 4))
"""(ranks, ranks of a group) over which a form is recognized: groups of two sizes, their number no power of two."""


def closed_form(schedules: Callable[[int, int], Schedule | None]) -> ClosedForm | None:
    """The closed form of the schedules of a maker, a function of the number of ranks and, with groups, of ranks in a
    group: the form with the same sources, targets and shares in every round. None where no form has them, or where
    there is no schedule for RECOGNIZED."""
    left = list(CLOSED)
    for ranks, group in RECOGNIZED:
        if (schedule := schedules(ranks, group)) is None:
            return None
        rows = schedule.expand()
        rows = rows.take(rows.source != rows.target)
        found = Counter(
            _round(zip(r.source, r.target, r.reduce, r.count / schedule.chunks, strict=True)) for r in rows.by_round()
        )
        left = [form for form in left if form.rounds(ranks, group) == found]
    return left[0] if left else None


def _factors(ranks: int) -> tuple[int, ...]:
    """Two factors of the least sum, the lesser first."""
    divisors = [d for d in range(1, ranks + 1) if ranks % d == 0]
    return min((f for f in combinations_with_replacement(divisors, 2) if prod(f) == ranks), key=sum)
