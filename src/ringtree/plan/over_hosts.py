"""Choice of algorithm for ranks on several hosts: the one with the least predicted time, memory and network joined.

Beside the algorithms that know no hosts, the candidates are those that are nested: one algorithm inside each host, one
between hosts (transform.nest; transform.nest_in_hosts where hosts have unequal numbers of ranks, or ranks are not in
the order of their hosts).
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from math import inf

from ringtree.algorithms import find
from ringtree.algorithms.groups import even
from ringtree.ir.units import duration
from ringtree.plan.choice import NOTEWORTHY, kept
from ringtree.plan.nesting import NESTED, label, nestings
from ringtree.plan.steps import MOST_NESTED_TRANSFERS, MOST_TRANSFERS, fitting
from ringtree.plan.tuning import CallTuning
from ringtree.price import Hosts
from ringtree.price.over_hosts import PricedOverHosts, windows

INNER = ("two_shot", "one_shot", "ring", "flat", "chain", "binomial")
OUTER = ("two_shot", "one_shot", "ring", "halving_doubling", "recursive_doubling", "binomial", "chain", "double_tree")
"""The algorithms that are nested, inside and between, where they serve what the nesting asks."""
TREES = ("flat", "binomial")
NESTED_FOR_BLOCKS = {
    "gather": (TREES, TREES),
    "scatter": (TREES, TREES),
    "all_to_all": (("pairwise",), ("pairwise", "one_shot", "bruck")),
}
"""The algorithms that are nested for collectives of blocks, inside and between. Inside, exchanges take the same time
within 2 %, and pairwise the fewest staging slots."""
MOST_EXCHANGED = 1 << 15
"""The most transfers of a nested all_to_all, which take twice as long to write and to price as others'."""
MOST_BESIDE = 1 << 16
"""The most transfers of an algorithm that is priced beside nestings: where each of 256 ranks sends to each, that takes
a second and more, and the call many times as long as a nested one."""
PIECES_NBYTES = 1 << 17
"""Algorithms that pass a vector on piece by piece cut it so."""
MOST_PIECES = 64
WORTH_CHANNELS = 0.9
"""Windows are put side by side where that takes less than this share of the time."""
WIDENED = 8
"""The quickest candidates of one window after the other, of which windows side by side are priced, too."""


@dataclass(frozen=True, slots=True)
class HostChoice:
    """An algorithm and its tuning, with the reason for both as text."""

    algorithm: str
    steps: CallTuning
    why: str


@dataclass(frozen=True, slots=True)
class HostCandidate:
    """An algorithm, its tuning for the size, and its predicted time in seconds."""

    algorithm: str
    steps: CallTuning
    time_s: float

    @property
    def label(self) -> str:
        """The algorithm's name; of a nested one those inside hosts and between them."""
        return label(self.steps.options, "hosts") if self.algorithm == NESTED else self.algorithm


def choose_over_hosts(
    collective: str, hosts: Hosts, root: int | None, nbytes: int, rank_order: bool = False, balance: bool = False
) -> HostChoice:
    """Returns the algorithm for a call on a whole vector of `nbytes`; every rank must pass the same values.

    `rank_order` and `balance` as in `choose`. Cost: tenths of a second for the first size between two powers of two
    over up to 32 ranks, a second or two over 64 and 1 to 5 over 128, on few ranks hundredths for the next one that
    lies in the same cache; then a cache look-up."""
    return _choose(collective, hosts, root, _rounded(nbytes), rank_order, balance)


def candidates_over_hosts(
    collective: str, hosts: Hosts, root: int | None, nbytes: int, rank_order: bool = False, balance: bool = False
) -> tuple[HostCandidate, ...]:
    """Returns the candidates of a call on a whole vector of `nbytes`, priced for the next power of two, fastest first;
    among equals (within NOTEWORTHY) in the order of consideration. A call takes the first, which is cut as far as the
    group's staging slots allow. ValueError: if there is none. Cost as of `choose_over_hosts`."""
    return _fitted(collective, hosts, root, _rounded(nbytes), rank_order, balance)


def priced_at(candidate: HostCandidate, collective: str, hosts: Hosts, root: int | None, nbytes: int) -> HostCandidate:
    """Returns the candidate with its time for exactly that vector."""
    read = _read(candidate.algorithm, collective, hosts, root, candidate.steps)
    return replace(candidate, time_s=read.seconds(nbytes))


def quickest_as(algorithm: str, collective: str, hosts: Hosts, root: int | None, nbytes: int) -> HostCandidate:
    """Returns the named algorithm with its quickest tuning for a whole vector of `nbytes`, whether calls consider it or
    not. ValueError: if it does not serve the collective."""
    nbytes = _rounded(nbytes)
    found = _priced(algorithm, collective, hosts, root, nbytes)
    if not found:
        raise ValueError(f"{algorithm} does not serve {collective} over {len(set(hosts.host_of))} hosts")
    best = _widened(min(found, key=lambda c: c.time_s), collective, hosts, root, nbytes)
    return replace(best, steps=fitting(best.steps, algorithm, collective, len(hosts.host_of), root, hosts.memory.slots))


@lru_cache(maxsize=1024)
def _choose(
    collective: str, hosts: Hosts, root: int | None, nbytes: int, rank_order: bool, balance: bool
) -> HostChoice:
    best, *others = _fitted(collective, hosts, root, nbytes, rank_order, balance)
    beside = "".join(f", {duration(after.time_s)} for {after.label}" for after in others[:1])
    why = f"{duration(best.time_s)} predicted{beside}, over {hosts.source}"
    return HostChoice(best.algorithm, best.steps, why)


@lru_cache(maxsize=256)
def _fitted(
    collective: str, hosts: Hosts, root: int | None, nbytes: int, rank_order: bool, balance: bool
) -> tuple[HostCandidate, ...]:
    """The candidates, the first of them as it is cut to fit the slots."""
    ranked = list(_ranked(collective, hosts, root, nbytes, rank_order, balance))
    while ranked:
        best = ranked[0]
        what = best.algorithm, collective, len(hosts.host_of), root
        steps = fitting(best.steps, *what, hosts.memory.slots)
        if steps == best.steps:
            return (replace(best, steps=steps), *ranked[1:])
        ranked.pop(0)
        if steps.options == best.steps.options or best.algorithm != NESTED:  # without them it would be another nesting
            time_s = _read(best.algorithm, collective, hosts, root, steps).seconds(nbytes)
            after = next((k for k, c in enumerate(ranked) if c.time_s * (1 + NOTEWORTHY) > time_s), len(ranked))
            ranked.insert(after, HostCandidate(best.algorithm, steps, time_s))
    raise ValueError(f"no algorithm for {collective} reduces all ranks in order at once")


@lru_cache(maxsize=256)
def _ranked(
    collective: str, hosts: Hosts, root: int | None, nbytes: int, rank_order: bool, balance: bool
) -> tuple[HostCandidate, ...]:
    names = kept(collective, len(hosts.host_of), rank_order, balance)
    names = tuple(name for name in names if name != NESTED)  # its own groups are none of hosts
    nested = list[HostCandidate]()
    if not (rank_order or balance) and even(hosts.host_of) != 1 and collective in find(NESTED).serves:
        nested = _priced(NESTED, collective, hosts, root, nbytes)
    if any(_transfers(c.algorithm, collective, hosts, root, c.steps) <= MOST_NESTED_TRANSFERS for c in nested):
        few = tuple(n for n in names if _transfers(n, collective, hosts, root, CallTuning()) <= MOST_BESIDE)
        names = few or names
    found = [c for name in names for c in _priced(name, collective, hosts, root, nbytes, balance)] + nested
    least_s = min((c.time_s for c in found), default=0.0) or 1.0
    found.sort(key=lambda c: round(c.time_s / least_s / NOTEWORTHY))  # among equals the first
    wide = list[HostCandidate]()
    for c in found[:WIDENED]:
        to_beat_s = min((w.time_s for w in wide), default=inf) * (1 + NOTEWORTHY)
        wide.append(_widened(c, collective, hosts, root, nbytes, to_beat_s))
    wide += found[WIDENED:]
    wide.sort(key=lambda c: round(c.time_s / least_s / NOTEWORTHY))
    return tuple(wide)


def _priced(
    name: str, collective: str, hosts: Hosts, root: int | None, nbytes: int, balance: bool = False
) -> list[HostCandidate]:
    """The tunings of an algorithm that are considered, priced."""
    if name == NESTED:
        return _priced_nestings(collective, hosts, root, nbytes)
    steps = CallTuning(_pieces(name, collective, nbytes), balanced=balance)
    found = [_candidate(name, collective, hosts, root, nbytes, steps)]
    pieces = min(1 << max(nbytes // PIECES_NBYTES, 1).bit_length() - 1, hosts.memory.slots // 2)
    if find(name).costs[collective].pipelines and pieces > 1:
        found.append(_candidate(name, collective, hosts, root, nbytes, replace(steps, pipeline=pieces)))
    return found


def _priced_nestings(collective: str, hosts: Hosts, root: int | None, nbytes: int) -> list[HostCandidate]:
    """Nested candidates: all algorithms between hosts beside one inside, then all inside beside the quickest between
    hosts, then all between beside the quickest inside. The two parts' times nearly add up, so the quickest of all pairs
    is among these, which are fewer."""
    found: dict[tuple[str, str], HostCandidate] = {}
    looked_at: set[tuple[str, str]] = set()

    def quickest(inner: tuple[str, ...], outer: tuple[str, ...]) -> tuple[str, str] | None:
        pairs = list(product(inner, outer))
        for inside, between in pairs:
            if (inside, between) in looked_at:
                continue
            looked_at.add((inside, between))
            [options] = nestings(hosts.host_of, (inside,), (between,))
            with suppress(ValueError):  # one of them does not serve what the nesting asks
                steps = CallTuning(options)
                found[inside, between] = _candidate(NESTED, collective, hosts, root, nbytes, steps)
        return min((pair for pair in pairs if pair in found), key=lambda pair: found[pair].time_s, default=None)

    if collective == "all_to_all" and _exchanged(hosts) > MOST_EXCHANGED:
        return []
    inner, outer = NESTED_FOR_BLOCKS.get(collective, (INNER, OUTER))
    best = next(filter(None, (quickest((inside,), outer) for inside in inner)), None)
    if best and (best := quickest(inner, best[1:])):
        quickest(best[:1], outer)
    return [found[pair] for pair in product(inner, outer) if pair in found]


def _exchanged(hosts: Hosts) -> int:
    """The transfers of an all_to_all that is nested in the hosts: a block each between two ranks, and the crossings."""
    ranks = len(hosts.host_of)
    return ranks * (ranks + len(set(hosts.host_of)) - 1)


def _candidate(
    name: str, collective: str, hosts: Hosts, root: int | None, nbytes: int, steps: CallTuning
) -> HostCandidate:
    return HostCandidate(name, steps, _read(name, collective, hosts, root, steps).seconds(nbytes))


def _widened(
    found: HostCandidate, collective: str, hosts: Hosts, root: int | None, nbytes: int, to_beat_s: float = inf
) -> HostCandidate:
    """The candidate with several windows under way at once, where one after the other waits for the latency much
    longer, and twice that latency brings it below `to_beat_s`."""
    schedule = _read(found.algorithm, collective, hosts, root, found.steps).schedule
    channels = min(hosts.memory.slots // 2, MOST_TRANSFERS // max(schedule.transfers, 1))  # more are not proved
    if root is not None or channels < 2:
        return found
    further = windows(schedule, hosts, nbytes) - 1
    gain_s = further * schedule.rounds * hosts.latency_s  # the latency alone: the windows' work may overlap, too
    if gain_s <= (1 - WORTH_CHANNELS) * found.time_s or found.time_s - 2 * gain_s > to_beat_s:
        return found
    steps = replace(found.steps, channels=channels)
    wider_s = _read(found.algorithm, collective, hosts, root, steps).seconds(nbytes)
    return replace(found, steps=steps, time_s=wider_s) if wider_s < WORTH_CHANNELS * found.time_s else found


@lru_cache(maxsize=256)
def _read(name: str, collective: str, hosts: Hosts, root: int | None, steps: CallTuning) -> PricedOverHosts:
    return PricedOverHosts(steps.apply(name, collective, len(hosts.host_of), root), hosts)


def _transfers(name: str, collective: str, hosts: Hosts, root: int | None, steps: CallTuning) -> int:
    return _read(name, collective, hosts, root, steps).schedule.transfers


def _pieces(name: str, collective: str, nbytes: int) -> tuple[tuple[str, int | str], ...]:
    function = find(name).functions.get(collective)
    if "pieces" not in (getattr(function, "__kwdefaults__", None) or {}):
        return ()
    return (("pieces", min(max(nbytes // PIECES_NBYTES, 1), MOST_PIECES)),)


def _rounded(nbytes: int) -> int:
    """The next power of two."""
    return 1 << (nbytes - 1).bit_length() if nbytes else 0
