"""The published algorithms for a collective on a topology: each with its ranks in the order that suits the links, with
its chunks in the pieces that suit the size, and rings side by side where links are left over."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ringtree import price
from ringtree.algorithms import check_options, find, serving
from ringtree.algorithms.groups import host_group
from ringtree.ir.collective import collective as find_collective
from ringtree.ir.schedule import Schedule
from ringtree.ir.units import check_byte_count
from ringtree.price import scale
from ringtree.search.arrange import arrange, rooted
from ringtree.search.order import MAX_RINGS, rings
from ringtree.search.routes import Where, topology_of
from ringtree.topology.graph import Topology
from ringtree.transform import pipeline, relabel, share
from ringtree.verify import prove

MOST_RANKS = 256
"""The most ranks that are searched."""
MOST_TRANSFERS = 1 << 17
"""The most transfers of a schedule that is considered."""
ARRANGED = 6
"""The algorithms, quickest in rank order first, whose ranks are arranged."""
MOST_PIECES, SHORT_PIECES = 1024, 64
"""The most pieces of a chunk, and of one in pieces below SHORTEST_NBYTES: no message has a price of its own. With
4,096, a chain of 1 GiB over 32 ranks is 2 % quicker, and its proof takes long."""
MOST_RINGED = 256
"""The most ranks of a host times orders side by side: each order of 64 ranks is searched for seconds."""
PASSED_ON = ("ring", "chain")
"""The algorithms in which each rank passes data on to the next: several orders run side by side."""


@dataclass(frozen=True, slots=True)
class FoundSchedule:
    """A schedule for a topology, and its predicted seconds. `orders`: of each part that runs side by side, the ranks in
    the places of the algorithm's own, [parts][ranks]; `pieces`: of each chunk, which follow one another; `in_order_s`:
    the seconds of the algorithm in rank order, in its best number of pieces; `options`: the algorithm's own, as `build`
    takes them."""

    algorithm: str
    schedule: Schedule
    orders: tuple[tuple[int, ...], ...]
    pieces: int
    seconds: float
    in_order_s: float
    options: tuple[tuple[str, object], ...] = ()

    @property
    def is_arranged(self) -> bool:
        """Whether another order than that of the ranks' numbers was found."""
        return self.orders != (tuple(range(self.schedule.ranks)),)


def candidates(
    collective: str,
    where: Where,
    nbytes: int,
    root: int | None = None,
    names: Sequence[str] = (),
    watched: Callable[[Sequence[Any]], Iterable[Any]] = iter,
    options: Mapping[str, object] | None = None,
) -> tuple[FoundSchedule, ...]:
    """Returns the schedules found for a whole vector of `nbytes`, quickest first, one or two of each algorithm (those
    in `names`, or all published ones that serve the collective over so many ranks). Groups are the hosts, where they
    are even; a user's own schedule is proved first. Cost: up to 400 predictions for each of eight algorithms, and
    `rings`; a second on 8 ranks, tens on 64. `watched` yields the items of each list that is gone through, to show how
    far it is. `options`: of the algorithms, each for those that have it. ValueError: for more than 256 ranks, a root
    that cannot be, a name that does not serve the collective, an option that none has, or where none serves it over so
    many ranks; ProofError for a user's own that is wrong."""
    check_byte_count(nbytes)
    if isinstance(names, str):
        raise TypeError(f"names={names!r}: expected a list of names")
    topology, rooted_here = topology_of(where), find_collective(collective).rooted
    if root is not None and not (rooted_here and 0 <= root < topology.ranks):
        expected = f"a rank, 0..{topology.ranks - 1}" if rooted_here else f"none, for {collective} has no root"
        raise ValueError(f"root {root}: expected {expected}")
    if topology.ranks > MOST_RANKS:
        raise ValueError(f"{topology.name} has {topology.ranks} ranks: expected at most {MOST_RANKS} to search")
    at = (root or 0) if rooted_here else None
    refusals: list[str] = []
    listed, asked = [*dict.fromkeys(names or serving(collective))], options or {}
    if asked:
        check_options(listed, collective, asked)
    plain = list(_in_rank_order(collective, topology, nbytes, at, watched(listed), refusals, asked))
    if not plain:
        raise ValueError(f"no schedule of {collective} over {topology.ranks} ranks: {refusals[0]}")
    plain.sort(key=lambda c: c.seconds)
    few = {c.algorithm for c in plain[:ARRANGED]}.union(PASSED_ON)
    found = [c for c in plain if c.algorithm not in few]
    for one in watched([c for c in plain if c.algorithm in few]):
        found.append(_arranged(one, topology, nbytes))
        if one.algorithm in PASSED_ON:
            found += _side_by_side(one, topology, nbytes)
    return tuple(sorted(found, key=lambda c: c.seconds))


def _in_rank_order(
    collective: str,
    topology: Topology,
    nbytes: int,
    root: int | None,
    names: Iterable[str],
    refusals: list[str],
    options: Mapping[str, object],
) -> Iterator[FoundSchedule]:
    """The algorithms that serve so many ranks, in rank order; `refusals` gets the reasons of the others."""
    for name in names:
        algorithm = find(name)
        algorithm.function(collective)  # an algorithm that does not serve it is a mistake, a number of ranks is none
        taken = {**host_group(name, collective, topology.hosts.tolist()), **algorithm.accepted(collective, options)}
        try:
            schedule = algorithm.build(collective, topology.ranks, root, **taken)
        except ValueError as refusal:  # of one that serves other numbers of ranks
            refusals.append(str(refusal))
            continue
        if schedule.transfers > MOST_TRANSFERS:
            refusals.append(f"{name} has {schedule.transfers:,} transfers; expected at most {MOST_TRANSFERS:,}")
            continue
        if algorithm.origin:
            prove(schedule)
        order = tuple(range(topology.ranks))
        plain = FoundSchedule(algorithm.name, schedule, (order,), 1, 0.0, 0.0, tuple(taken.items()))
        yield _in_pieces(plain, topology, nbytes)


def _in_pieces(found: FoundSchedule, topology: Topology, nbytes: int) -> FoundSchedule:
    """The candidate, whose chunks are whole, in its best number of pieces: as it is priced where data is passed on."""
    whole, best = found.schedule, replace(found, seconds=price.seconds(found.schedule, topology, nbytes))
    pieces = 2
    most = min(MOST_PIECES, max(SHORT_PIECES, nbytes // (whole.chunks * scale.SHORTEST_NBYTES)))
    while _passes_on(found) and pieces <= most and whole.transfers * pieces <= MOST_TRANSFERS:
        cut = pipeline(whole, pieces)
        seconds = price.seconds(cut, topology, nbytes)
        if seconds >= best.seconds:
            break
        best, pieces = replace(best, schedule=cut, pieces=pieces, seconds=seconds), pieces * 2
    return replace(best, in_order_s=found.in_order_s or best.seconds)


def _passes_on(found: FoundSchedule) -> bool:
    return find(found.algorithm).costs[found.schedule.collective].pipelines


def _whole(found: FoundSchedule) -> Schedule:
    """The algorithm's schedule in rank order, its chunks whole."""
    schedule = found.schedule
    return find(found.algorithm).build(schedule.collective, schedule.ranks, schedule.root, **dict(found.options))


def _arranged(found: FoundSchedule, topology: Topology, nbytes: int) -> FoundSchedule:
    """The candidate in the best order, itself where none is better."""
    whole = _whole(found)
    if found.schedule.promise.prefix:  # depends on the ranks' order
        return found
    order = arrange(whole, topology, nbytes)
    if order == found.orders[0]:
        return found
    better = _in_pieces(replace(found, schedule=relabel(whole, order), orders=(order,)), topology, nbytes)
    return better if better.seconds < found.seconds else found


def _side_by_side(found: FoundSchedule, topology: Topology, nbytes: int) -> Iterator[FoundSchedule]:
    """The candidate in several orders at once, each with a share of the bytes; none where one order uses all links."""
    most = max(1, min(MAX_RINGS, MOST_RINGED // int(np.bincount(topology.hosts).max())))
    orders = tuple(rooted(order, found.schedule.root) for order in rings(topology, most))
    if len(orders) > 1 and not found.schedule.promise.prefix:
        whole = _whole(found)
        together = share(*(relabel(whole, order) for order in orders))
        yield _in_pieces(replace(found, schedule=together, orders=orders), topology, nbytes)
