"""Choice of algorithm for the shared-memory engine: the one with the least predicted time.

Inside one machine every rank reaches every other in one step, so the candidates are the algorithms with few rounds and
those whose busiest rank sends few bytes, by the algorithms' own cost formulas.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from ringtree.algorithms import REGISTRY, serving
from ringtree.ir.collective import COLLECTIVES
from ringtree.ir.collective import collective as find_collective
from ringtree.ir.units import duration
from ringtree.plan.nesting import BETWEEN_NODES, IN_NODES, NESTED, Options, label, nestings
from ringtree.plan.properties import COMPARED_RANKS, at_once, balanced, in_rank_order, joinings
from ringtree.plan.steps import wanted, workload
from ringtree.plan.tuning import CallTuning
from ringtree.price.memory import MemoryQuote, SharedMemory, quote
from ringtree.price.memory.parameters import sums_are_written

SHORTLIST = 4
"""Candidates taken by fewest rounds, and candidates taken by fewest bytes."""
FEW_RANKS = 4
"""Above this number of ranks, reductions by a Python function are chosen by consecutive calls, not by rounds."""
NOTEWORTHY = 0.01
"""Relative gain at which a later candidate replaces an earlier one: equal predictions may differ in the last bit
between two ranks, which must choose alike."""
MAX_RANKS = 64
"""Above MAX_RANKS, ranks are planned as if there were MAX_RANKS, on a proportional share of the cores: counting the
messages of more ranks takes too long."""
EIGHT_RANKS = SharedMemory(cores=1 << 20, slots=8, slot_bytes=1 << 17)
"""Default memory: staging slots of 8 ranks, one core per rank, built-in cost parameters."""


@dataclass(frozen=True, slots=True)
class Choice:
    """An algorithm's name, the reason for it as text, and the options by which it is nested in NUMA nodes, if it is."""

    algorithm: str
    why: str
    options: Options = ()


@dataclass(frozen=True, slots=True)
class Candidate:
    """An algorithm, its tuning for the size, and its predicted time."""

    algorithm: str
    steps: CallTuning
    quote: MemoryQuote

    @property
    def label(self) -> str:
        """The algorithm's name; of one nested in NUMA nodes those inside and between them."""
        nested = dict(self.steps.options).keys() >= {"inner", "outer"}
        return label(self.steps.options, "NUMA nodes") if nested else self.algorithm


def choose(
    collective: str,
    ranks: int,
    nbytes: int,
    rank_order: bool = False,
    memory: SharedMemory = EIGHT_RANKS,
    balance: bool = False,
) -> Choice:
    """Returns the algorithm for a call on a whole vector of `nbytes`. Every rank must pass the same values.

    `rank_order`: only algorithms that agree with one another to the last bit. `balance`: only those that add up by the
    balanced tree over ranks. Else, where the ranks are on several NUMA nodes, algorithms that are nested in them are
    candidates, too. ValueError: if no algorithm serves the collective.
    Cost: milliseconds for the first size between two powers of two, then a cache look-up.
    """
    names = kept(collective, ranks, rank_order, balance)
    if ranks == 1:
        return Choice(names[0], "a single rank has no choice")
    if len(names) == 1:
        also = " and reduces all ranks at once" * rank_order + " and adds up in a balanced tree" * balance
        return Choice(names[0], f"the only algorithm that serves {collective}{also}")
    node_of = memory.node_of
    if ranks > MAX_RANKS:
        few = tuple(node_of[k * ranks // MAX_RANKS] for k in range(MAX_RANKS)) if node_of else ()
        memory = replace(memory, cores=max(memory.cores * MAX_RANKS // ranks, 1), node_of=few)
        ranks = MAX_RANKS
    nbytes = 1 << (nbytes - 1).bit_length() if nbytes else 0
    found = _choose(names, collective, ranks, nbytes, memory, not (rank_order or balance), balance)
    if not found.options or memory.node_of == node_of:
        return found
    given = dict(found.options)
    return replace(found, options=next(nestings(node_of, [str(given["inner"])], [str(given["outer"])])))


@lru_cache(maxsize=1024)
def _choose(
    names: tuple[str, ...],
    collective: str,
    ranks: int,
    nbytes: int,
    memory: SharedMemory,
    nest: bool,
    balance: bool,
) -> Choice:
    nested = nested_candidates(collective, ranks, nbytes, memory) if nest else []
    names = tuple(n for n in names if not (nested and n == NESTED))
    found = candidates(names, collective, ranks, nbytes, memory, balance)
    found += nested
    best = chosen(found)
    others = [c for c in found if c is not best]
    next_best = chosen(others)
    suffix = ", for symmetric arrays" if memory.symmetric else ""
    return Choice(
        best.algorithm,
        f"{duration(best.quote.seconds)} predicted{f' for {best.label}' if best in nested else ''}, "
        f"{duration(next_best.quote.seconds)} for {next_best.label}, by {memory.parameters.source}{suffix}",
        best.steps.options[:3] if best in nested else (),
    )


def kept(collective: str, ranks: int, rank_order: bool, balance: bool) -> tuple[str, ...]:
    """Returns the names of the algorithms that keep these promises, which are those of `choose`. ValueError: if none
    does."""
    if not (rank_order or balance):
        return shortlist(collective, ranks)
    names = balanced(collective, ranks) if balance else at_once(collective)
    if not names:
        how = "adds up in a balanced tree" if balance else "reduces all ranks in order at once"
        raise ValueError(f"no algorithm for {collective} {how}")
    return names


def candidates(
    names: tuple[str, ...], collective: str, ranks: int, nbytes: int, memory: SharedMemory, balance: bool = False
) -> list[Candidate]:
    """Returns the algorithms with their tuning for `nbytes` and predicted times, root 0 where there is one. `steps_for`
    may remove steps of the tuning. `balance` as in `choose`."""
    root = 0 if find_collective(collective).rooted else None
    found = []
    for name in names:
        steps = wanted(name, collective, ranks, root, nbytes, memory)
        steps = replace(steps, balanced=True, many_source=False) if balance else steps
        found.append(Candidate(name, steps, predict(name, collective, ranks, root, nbytes, steps, memory)))
    return found


def nested_candidates(collective: str, ranks: int, nbytes: int, memory: SharedMemory) -> list[Candidate]:
    """Returns the algorithms nested in the NUMA nodes of the ranks; none where there is one, or a rank on each."""
    node_of, root = memory.node_of, 0 if find_collective(collective).rooted else None
    if len(set(node_of)) in (0, 1, ranks) or collective not in REGISTRY[NESTED].serves:
        return []
    found = []
    for options in nestings(node_of, IN_NODES, BETWEEN_NODES):
        try:
            steps = wanted(NESTED, collective, ranks, root, nbytes, memory, options)
        except ValueError:  # one of them does not serve what the nesting asks
            continue
        found.append(Candidate(NESTED, steps, predict(NESTED, collective, ranks, root, nbytes, steps, memory)))
    return found


def predict(
    algorithm: str, collective: str, ranks: int, root: int | None, nbytes: int, steps: CallTuning, memory: SharedMemory
) -> MemoryQuote:
    """Returns the predicted time of a call on a whole vector of `nbytes`, cut by `steps`, corrected where such calls
    were measured."""
    what = algorithm, collective, ranks, root, steps, memory.node_of
    work = workload(*what)
    if memory.symmetric and sums_are_written(collective, work.counts.chunks, nbytes):
        work = workload(*what, symmetric=True)
    found = quote(work, memory, nbytes)
    return found.times(memory.parameters.corrections.factor(collective, algorithm, ranks, nbytes))


def chosen(found: list[Candidate]) -> Candidate:
    """Returns the fastest candidate; among equals (within NOTEWORTHY) the first."""
    best = found[0]
    for other in found[1:]:
        if other.quote.seconds < best.quote.seconds * (1 - NOTEWORTHY):
            best = other
    return best


def shortlist(collective: str, ranks: int) -> tuple[str, ...]:
    """Returns the names of the candidate algorithms, fewest rounds first. ValueError: if there is none."""
    names = serving(collective)
    if not names:
        raise ValueError(f"no algorithm serves {collective!r}")
    return _shortlist(tuple(names), collective, max(ranks, COMPARED_RANKS))


@lru_cache(maxsize=256)
def _shortlist(names: tuple[str, ...], collective: str, ranks: int) -> tuple[str, ...]:
    costs = {name: REGISTRY[name].costs[collective].evaluate(ranks, 1.0) for name in names}
    by_rounds, by_bytes = (sorted(names, key=lambda name: (costs[name][k], costs[name])) for k in (0, 1))
    few = {*by_rounds[:SHORTLIST], *by_bytes[:SHORTLIST]}
    return tuple(name for name in by_rounds if name in few)


def choose_whole(collective: str, ranks: int, rank_order: bool = False, balance: bool = False) -> Choice:
    """Returns the algorithm for a reduction by a function of whole vectors (or whole blocks) that may not commute.
    `rank_order`: contributions are reduced one after the other; `balance`: by an algorithm that can be balanced.

    Each application costs the function's time, each message about 10 us: up to FEW_RANKS both count, above only the
    consecutive applications, because their number grows with the ranks.
    """
    names = at_once(collective) if rank_order or balance else in_rank_order(collective)
    found = {name: joined for name in names if (joined := joinings(name, collective)).whole}
    if not found:
        known = ", ".join(c for c in COLLECTIVES if in_rank_order(c))
        raise ValueError(f"no algorithm reduces {collective!r} in rank order: expected one of {known}")
    if ranks > FEW_RANKS and not (rank_order or balance):
        name = min(found, key=lambda name: found[name].in_a_row)
        return Choice(name, "of the algorithms in rank order, it has the fewest consecutive reductions")
    name = min(found, key=lambda name: (found[name].rounds + found[name].in_a_row, found[name].in_a_row))
    return Choice(name, "of the algorithms in rank order, it has the fewest rounds and consecutive reductions")
