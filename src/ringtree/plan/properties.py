"""Properties of an algorithm by its schedules: the order in which it adds up, and how many joinings follow one another.

Schedules over a few ranks stand for any number. What was found is kept by the algorithm's name.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from ringtree.algorithms import build, find, serving
from ringtree.ir.collective import COLLECTIVES
from ringtree.ir.schedule import Schedule
from ringtree.transform import balance
from ringtree.verify import ReductionOrder, is_balanced, prove, rank_order

ORDERED_RANKS = (3, 5, 8)
"""Over which an order is looked at; it is the least of them."""
MOST_BALANCED = 64
"""Above it, balanced trees are looked for only among the algorithms that add up at once: theirs are by construction."""
COMPARED_RANKS = 8
"""Least number of ranks for comparisons: over fewer ranks many algorithms are the same."""


@dataclass(frozen=True, slots=True)
class Joinings:
    """A reduction over COMPARED_RANKS: its rounds, the most joinings that follow one another for a result, and whether
    whole vectors (or blocks) are joined, not pieces of them."""

    rounds: int
    in_a_row: int
    whole: bool


@lru_cache(maxsize=1024)
def order(algorithm: str, collective: str) -> ReductionOrder:
    """The order in which an algorithm adds up, for every root and number of ranks. ANY where nothing is added up, and
    for a user's own that serves none of ORDERED_RANKS."""
    promise = COLLECTIVES[collective]
    if not promise.reduces or promise.repeats:
        return ReductionOrder.ANY
    least = []
    for ranks in ORDERED_RANKS:
        for root in _roots(collective, ranks):
            if schedule := made_by(algorithm, collective, ranks, root):
                least.append(ReductionOrder.ANY if _in_a_row(schedule) is None else rank_order(schedule))
                if least[-1] is ReductionOrder.ANY:
                    return ReductionOrder.ANY
    return min(least, default=ReductionOrder.ANY)


def _roots(collective: str, ranks: int) -> tuple[int | None, ...]:
    """The roots that stand for all; None where there is none."""
    return tuple(sorted({0, ranks // 2, ranks - 1})) if COLLECTIVES[collective].rooted else (None,)


def made_by(algorithm: str, collective: str, ranks: int, root: int | None = None, **options: object) -> Schedule | None:
    """An algorithm's schedule; None where a user's own does not serve `ranks` ranks, or its proof fails."""
    if not find(algorithm).origin:
        return build(algorithm, collective, ranks, root, **options)
    try:
        schedule = build(algorithm, collective, ranks, root, **options)
        prove(schedule)
    except ValueError:
        return None
    return schedule


def at_once(collective: str) -> tuple[str, ...]:
    """The published algorithms that reduce every element once, over all ranks in order: they agree to the last bit."""
    return tuple(name for name in serving(collective) if order(name, collective) is ReductionOrder.FOLD)


def in_rank_order(collective: str) -> tuple[str, ...]:
    """The published algorithms that join only neighbours, the lower first, for every root."""
    return tuple(name for name in serving(collective) if order(name, collective) >= ReductionOrder.ASSOCIATIVE)


@lru_cache(maxsize=256)
def balanced(collective: str, ranks: int) -> tuple[str, ...]:
    """The published algorithms that add up by the balanced tree over `ranks` ranks, for every root, where what they
    reduce at once is balanced (transform.balance): they agree to the last bit."""
    return tuple(name for name in serving(collective) if _is_balanced(name, collective, ranks))


def _is_balanced(algorithm: str, collective: str, ranks: int) -> bool:
    promise = COLLECTIVES[collective]
    if not promise.reduces or promise.repeats:
        return False
    if ranks > MOST_BALANCED:
        return order(algorithm, collective) is ReductionOrder.FOLD
    return all(is_balanced(balance(build(algorithm, collective, ranks, root))) for root in _roots(collective, ranks))


@lru_cache(maxsize=256)
def joinings(algorithm: str, collective: str) -> Joinings:
    """The joinings of a reduction over COMPARED_RANKS. ValueError: if the algorithm does not join in rank order."""
    schedule = build(algorithm, collective, COMPARED_RANKS)
    in_a_row = _in_a_row(schedule)
    if in_a_row is None:
        raise ValueError(f"{algorithm} does not join {collective} in rank order")
    blocks = COMPARED_RANKS if COLLECTIVES[collective].blocked else 1
    return Joinings(schedule.rounds, in_a_row, schedule.chunks == blocks)


def _in_a_row(schedule: Schedule) -> int | None:
    """The most joinings that follow one another; None where a rank joins others than neighbours, the lower first. It
    takes a fraction of `rank_order`'s time, which sees in addition what is joined at once."""
    held = dict[tuple[int, int, int], tuple[int, int, int]]()  # by position: from rank, up to rank, joinings
    most = 0
    for rows in schedule.expand().by_round():
        before = dict(held)
        columns = (
            rows.source,
            rows.source_buffer,
            rows.source_chunk,
            rows.target,
            rows.target_buffer,
            rows.target_chunk,
        )
        for *ends, count, adds in zip(*(c.tolist() for c in (*columns, rows.count, rows.reduce)), strict=True):
            for k in range(count):
                source, target = (ends[0], ends[1], ends[2] + k), (ends[3], ends[4], ends[5] + k)
                low, high, done = before.get(source, (ends[0], ends[0] + 1, 0))
                if adds:
                    first, last, there = held.get(target, (ends[3], ends[3] + 1, 0))
                    if last != low:
                        return None
                    low, done = first, max(done, there) + 1
                held[target] = low, high, done
                most = max(most, done)
    return most
