"""Which algorithm the shared-memory engine runs: the one that is predicted to be done first.

Inside one machine every rank reaches every other in one step, so only those come into question that have few rounds, or
whose busiest rank sends few bytes, by the formulas that the algorithms state.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from ringtree.algorithms import REGISTRY, serving
from ringtree.ir.collective import COLLECTIVES
from ringtree.ir.collective import collective as find_collective
from ringtree.ir.units import duration
from ringtree.plan.properties import COMPARED_RANKS, at_once, in_rank_order, joinings
from ringtree.plan.steps import CallTuning, wanted, workload
from ringtree.price.memory import MemoryQuote, SharedMemory, quote

SHORTLIST = 4
"""How many with the fewest rounds, and how many with the fewest bytes."""
FEW_RANKS = 4
"""Over more, a Python function is called less often one after another, whatever the rounds."""
NOTEWORTHY = 0.01
"""A later one of the list is chosen if it is predicted to be so much faster. What is equal by rights may differ in the
last bit between two ranks."""
MOST_RANKS = 64
"""More ranks are planned as if there were so many, on as large a part of the cores: to count more takes too long."""
EIGHT_RANKS = SharedMemory(cores=1 << 20, slots=8, slot_bytes=1 << 17)
"""The default: the slots of 8 ranks, a core for each rank, built-in cost parameters."""


@dataclass(frozen=True, slots=True)
class Choice:
    """An algorithm's name and, in words, why it was chosen."""

    algorithm: str
    why: str


@dataclass(frozen=True, slots=True)
class Candidate:
    """An algorithm, how it is cut for the size, and its price."""

    algorithm: str
    steps: CallTuning
    quote: MemoryQuote


def choose(
    collective: str,
    ranks: int,
    nbytes: int,
    rank_order: bool = False,
    memory: SharedMemory = EIGHT_RANKS,
) -> Choice:
    """The algorithm for a call; `nbytes` is the whole vector's. Every rank must ask with the same values. Sizes up to
    the next power of two are of one kind, of which the first costs milliseconds.

    `rank_order`: one of those that agree to the last bit."""
    names = at_once(collective) if rank_order else shortlist(collective, ranks)
    if not names:
        raise ValueError(f"no algorithm for {collective} reduces all ranks in order at once")
    if ranks == 1:
        return Choice(names[0], "one rank alone has nothing to choose")
    if len(names) == 1:
        return Choice(names[0], f"the only one that serves {collective}" + " all at once" * rank_order)
    if ranks > MOST_RANKS:
        memory = replace(memory, cores=max(memory.cores * MOST_RANKS // ranks, 1))
        ranks = MOST_RANKS
    return _choose(names, collective, ranks, 1 << (nbytes - 1).bit_length() if nbytes else 0, memory)


@lru_cache(maxsize=1024)
def _choose(names: tuple[str, ...], collective: str, ranks: int, nbytes: int, memory: SharedMemory) -> Choice:
    found = candidates(names, collective, ranks, nbytes, memory)
    best = chosen(found)
    others = [c for c in found if c is not best]
    next_best = chosen(others)
    return Choice(
        best.algorithm,
        f"{duration(best.quote.seconds)} predicted, {duration(next_best.quote.seconds)} for "
        f"{next_best.algorithm}, by {memory.parameters.source}",
    )


def candidates(
    names: tuple[str, ...], collective: str, ranks: int, nbytes: int, memory: SharedMemory
) -> list[Candidate]:
    """The algorithms of these names, as they would be cut (`steps_for` may take steps back), and what they would take;
    root 0 where there is one."""
    root = 0 if find_collective(collective).rooted else None
    found = []
    for name in names:
        steps = wanted(name, collective, ranks, root, nbytes, memory)
        found.append(Candidate(name, steps, predict(name, collective, ranks, root, nbytes, steps, memory)))
    return found


def predict(
    algorithm: str, collective: str, ranks: int, root: int | None, nbytes: int, steps: CallTuning, memory: SharedMemory
) -> MemoryQuote:
    """The price of a call on a whole vector of `nbytes`, cut by these steps."""
    return quote(workload(algorithm, collective, ranks, root, steps), memory, nbytes)


def chosen(found: list[Candidate]) -> Candidate:
    """The fastest; of those alike, the one listed first."""
    best = found[0]
    for other in found[1:]:
        if other.quote.seconds < best.quote.seconds * (1 - NOTEWORTHY):
            best = other
    return best


def shortlist(collective: str, ranks: int) -> tuple[str, ...]:
    """The algorithms that come into question, those with fewer rounds first."""
    names = serving(collective)
    if not names:
        raise ValueError(f"nothing to choose from for {collective!r}")
    return _shortlist(tuple(names), collective, max(ranks, COMPARED_RANKS))


@lru_cache(maxsize=256)
def _shortlist(names: tuple[str, ...], collective: str, ranks: int) -> tuple[str, ...]:
    costs = {name: REGISTRY[name].costs[collective].evaluate(ranks, 1.0) for name in names}
    by_rounds, by_bytes = (sorted(names, key=lambda name: (costs[name][k], costs[name])) for k in (0, 1))
    few = {*by_rounds[:SHORTLIST], *by_bytes[:SHORTLIST]}
    return tuple(name for name in by_rounds if name in few)


def choose_whole(collective: str, ranks: int, rank_order: bool = False) -> Choice:
    """The algorithm for a reduction by a function that takes whole vectors (or whole blocks) and may not commute.
    `rank_order`: joined one after the other.

    Each joining costs the function's time and each message some 10 us: over FEW_RANKS what counts is both, over more
    the joinings that follow one another, for n-1 of them at once are soon too many.
    """
    names = at_once(collective) if rank_order else in_rank_order(collective)
    found = {name: joined for name in names if (joined := joinings(name, collective)).whole}
    if not found:
        known = ", ".join(c for c in COLLECTIVES if in_rank_order(c))
        raise ValueError(f"no algorithm reduces {collective!r} in rank order: expected one of {known}")
    if ranks > FEW_RANKS and not rank_order:
        name = min(found, key=lambda name: found[name].in_a_row)
        return Choice(name, "of those in rank order, its joinings one after another are the fewest")
    name = min(found, key=lambda name: (found[name].rounds + found[name].in_a_row, found[name].in_a_row))
    return Choice(name, "of those in rank order, its rounds and joinings one after another are the fewest")
