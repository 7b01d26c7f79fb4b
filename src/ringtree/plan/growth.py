"""How algorithms grow with the ranks: by a closed form, linearly, or faster; and which stand for all over any number.

Schedules over a few ranks show it.
"""

from __future__ import annotations

import inspect
from functools import lru_cache
from math import log

from ringtree.algorithms import find, serving
from ringtree.algorithms.own import Counted
from ringtree.ir.schedule import Schedule
from ringtree.plan.properties import made_by
from ringtree.price.closed import CLOSED, ClosedForm, closed_form

GROWING_RANKS, LINEAR = (16, 64), 5.0
"""Over four times the ranks, at most so many times the transfers: n-1 become 4.2 times as many, n*lg(n) 6 times."""
UNBEATEN_RANKS = 100
"""Over which algorithms are compared by their costs; no power of two, of which some make better use."""


@lru_cache(maxsize=256)
def closed(algorithm: str, collective: str) -> ClosedForm | None:
    """The closed form that stands for an algorithm's schedules, where one does."""
    grouped = "group" in inspect.signature(find(algorithm).functions[collective]).parameters

    def made(ranks: int, group: int) -> Schedule | None:
        return made_by(algorithm, collective, ranks, **({"group": group} if grouped else {}))

    return closed_form(made)


@lru_cache(maxsize=256)
def _growth(algorithm: str, collective: str) -> tuple[int, int] | None:
    """How many transfers over GROWING_RANKS; None for a user's own that does not serve so many."""
    few, many = (made_by(algorithm, collective, ranks) for ranks in GROWING_RANKS)
    return None if few is None or many is None else (few.transfers, many.transfers)


def linear(algorithm: str, collective: str) -> bool:
    """Whether the number of transfers grows as that of the ranks."""
    growth = _growth(algorithm, collective)
    return growth is not None and growth[1] <= LINEAR * growth[0]


def transfers(algorithm: str, collective: str, ranks: int) -> float:
    """An estimate of how many transfers a schedule over many ranks has, without building it: from the growth where that
    is linear or no cost is stated, else an upper bound from the cost. 0 where neither is known."""
    cost, (less, more) = find(algorithm).costs[collective], GROWING_RANKS
    if not isinstance(cost.rounds, Counted) and not linear(algorithm, collective):
        return max(cost.evaluate(ranks, ranks)) * ranks
    few, many = _growth(algorithm, collective) or (0, 0)
    if linear(algorithm, collective):
        return few + (many - few) / (more - less) * (ranks - less)
    return many * (many / few) ** (log(ranks / more) / log(more / less)) if few else 0.0


def representatives(collective: str) -> list[str]:
    """The published algorithms that stand for all over any number of ranks: first those whose all_reduce has a closed
    form, in the order of the forms; then those whose all_reduce is linear and has fewer rounds or fewer bytes than each
    other linear one."""
    names = serving("all_reduce")
    forms = {name: form for name in names if (form := closed(name, "all_reduce"))}
    others = {name: find(name).costs["all_reduce"].evaluate(UNBEATEN_RANKS, 1.0) for name in names if name not in forms}
    others = {name: cost for name, cost in others.items() if linear(name, "all_reduce")}

    def beaten(name: str) -> bool:
        return any(
            other != others[name] and all(a <= b for a, b in zip(other, others[name], strict=True))
            for other in others.values()
        )

    found = [*sorted(forms, key=lambda name: CLOSED.index(forms[name])), *sorted(n for n in others if not beaten(n))]
    return [name for name in found if name in serving(collective)]
