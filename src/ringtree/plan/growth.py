"""Growth of algorithms with the number of ranks: closed form, linear or faster; and the representative algorithms.

The growth is measured on schedules over a few ranks.
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
"""Linear growth: four times the ranks have at most LINEAR times the transfers. n-1 grows 4.2 times, n*lg(n) 6 times."""
UNBEATEN_RANKS = 100
"""Ranks at which costs are compared; not a power of two, which favours some algorithms."""


@lru_cache(maxsize=256)
def closed(algorithm: str, collective: str) -> ClosedForm | None:
    """Returns the closed form of an algorithm's schedules, or None where there is none."""
    grouped = "group" in inspect.signature(find(algorithm).functions[collective]).parameters

    def made(ranks: int, group: int) -> Schedule | None:
        return made_by(algorithm, collective, ranks, **({"group": group} if grouped else {}))

    return closed_form(made)


@lru_cache(maxsize=256)
def _growth(algorithm: str, collective: str) -> tuple[int, int] | None:
    """Returns the transfers over each of GROWING_RANKS; None where a user's algorithm does not serve them."""
    few, many = (made_by(algorithm, collective, ranks) for ranks in GROWING_RANKS)
    return None if few is None or many is None else (few.transfers, many.transfers)


def linear(algorithm: str, collective: str) -> bool:
    """Returns whether the number of transfers grows linearly with the ranks."""
    growth = _growth(algorithm, collective)
    return growth is not None and growth[1] <= LINEAR * growth[0]


def transfers(algorithm: str, collective: str, ranks: int) -> float:
    """Returns an estimate of a schedule's transfers, without building it: extrapolated where growth is linear or no
    cost is stated, else an upper bound from the cost formula. 0 where neither is known."""
    cost, (less, more) = find(algorithm).costs[collective], GROWING_RANKS
    if not isinstance(cost.rounds, Counted) and not linear(algorithm, collective):
        return max(cost.evaluate(ranks, ranks)) * ranks
    few, many = _growth(algorithm, collective) or (0, 0)
    if linear(algorithm, collective):
        return few + (many - few) / (more - less) * (ranks - less)
    return many * (many / few) ** (log(ranks / more) / log(more / less)) if few else 0.0


def representatives(collective: str) -> list[str]:
    """Returns the names of representative published algorithms: first algorithms whose all_reduce has a closed form,
    in the order of CLOSED; then linear algorithms that no other linear one beats in rounds and bytes of all_reduce."""
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
