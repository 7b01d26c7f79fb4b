"""Figures from calls that were measured: those with which the predictions' relative errors are least."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ringtree.plan.figures import BUILT_IN, CALL_COSTS, FASTEST_BPS, RATES, Figures
from ringtree.plan.predict import SWITCH, TURN, Floats, Room, costs, counted, vector
from ringtree.plan.steps import Steps

TURNS = 5
"""Who is the busiest rank depends on the figures: so often they are found, and used to look again."""
SMOOTH = 0.02
"""What it weighs, beside a relative error, that a rate differs from the rate for the next size by as much as itself."""
USUAL_ERROR = 0.05
"""Errors below it count squared; larger ones less and less, so that a few disturbed measurements bend little."""
SLOWEST_S = 1.0


@dataclass(frozen=True, slots=True)
class Measured:
    """One measured call on a whole vector of `nbytes`, cut by these steps, in this room."""

    algorithm: str
    collective: str
    ranks: int
    root: int | None
    nbytes: int
    steps: Steps
    room: Room
    time_s: float


def fit(calls: Sequence[Measured], source: str = "") -> Figures:
    """The figures of the machine that the calls were measured on. What calls with a core for every rank tell is told by
    them alone; where all ranks have a core, turns are taken to cost what is built in. ValueError where there are no
    calls of two ranks or more."""
    calls = [c for c in calls if c.ranks > 1]
    if not calls:
        raise ValueError("no measured call of two ranks or more; expected some to fit figures to")
    apart = [c for c in calls if c.ranks <= c.room.cores]
    figures = BUILT_IN
    for _ in range(TURNS if apart else 1):
        figures = _fitted(apart or calls, figures, np.arange(len(costs(figures))))
    crowded = [c for c in calls if c.ranks > c.room.cores]
    if apart and crowded:
        figures = _fitted(crowded, figures, np.array([TURN, SWITCH]))
    return _named(costs(figures), source)


def _fitted(calls: Sequence[Measured], before: Figures, free: np.typing.NDArray[np.intp]) -> Figures:
    """The costs at the places `free` fitted anew; the others as they were."""
    times = np.array([_vector(c, before) for c in calls])
    took_s = np.array([c.time_s for c in calls])
    price = costs(before)
    known = np.ones(len(price), np.bool_)
    known[free] = False
    known |= ~times.any(axis=0)  # nothing was measured that has it
    free = np.flatnonzero(~known)
    rest_s = np.maximum(took_s - times[:, known] @ price[known], 0.02 * took_s)
    price[free] = _least(times[:, free], took_s, rest_s, _alike(free, len(before.memory_nbytes)), price[free])
    return _named(price, before.source)


def _vector(call: Measured, figures: Figures) -> Floats:
    known = counted(call.algorithm, call.collective, call.ranks, call.root, call.steps)
    return vector(known, call.ranks, call.nbytes, call.steps, figures, call.room)


def _alike(free: np.typing.NDArray[np.intp], sizes: int) -> Floats:
    """[rows, len(free)]: that a rate and the one for the next size are alike."""
    first = len(CALL_COSTS)
    rows = []
    for k, place in enumerate(free.tolist()):
        if place >= first and k + 1 < len(free) and free[k + 1] == place + 1 and (place + 1 - first) % sizes:
            row = np.zeros(len(free))
            row[k], row[k + 1] = 1, -1
            rows.append(row)
    return np.array(rows).reshape(-1, len(free))


def _least(times: Floats, took_s: Floats, wanted_s: Floats, alike: Floats, price: Floats) -> Floats:
    """Costs, none below 0, with times @ costs nearest `wanted_s`, errors taken relative to `took_s`."""
    trust = np.ones(len(took_s))
    scale = SMOOTH / max(float(np.median(price)), 1e-12)
    for _ in range(10):
        rows = np.concatenate([times / took_s[:, None] * trust[:, None], alike * scale])
        found = _not_negative(rows, np.concatenate([wanted_s / took_s * trust, np.zeros(len(alike))]))
        guess_s = np.maximum(times @ found + took_s - wanted_s, 1e-3 * took_s)
        error = np.abs(np.log(guess_s / took_s))
        # an error is as large upwards as downwards: twice the time counts as half of it
        trust = np.sqrt(np.minimum(took_s / guess_s, 1.0) / np.maximum(error / USUAL_ERROR, 1.0))
    return found


def _not_negative(rows: Floats, wanted: Floats) -> Floats:
    """Least squares without negative factors: Lawson and Hanson, Solving Least Squares Problems, chapter 23."""
    unit = np.maximum(np.linalg.norm(rows, axis=0), 1e-300)
    rows = rows / unit
    found, used = np.zeros(rows.shape[1]), np.zeros(rows.shape[1], np.bool_)
    for _ in range(3 * len(found)):
        pull = rows.T @ (wanted - rows @ found)
        pull[used] = 0
        if pull.max(initial=0) <= 1e-10:
            break
        used[pull.argmax()] = True
        while True:
            trial = np.zeros(len(found))
            trial[used] = np.linalg.lstsq(rows[:, used], wanted, rcond=None)[0]
            below = used & (trial <= 0)
            if not below.any():
                found = trial
                break
            step = float(np.min(found[below] / np.maximum(found[below] - trial[below], 1e-300)))
            found = found + step * (trial - found)
            used &= found > 1e-15
            found[~used] = 0
    factors: Floats = found / unit
    return factors


def _named(price: Floats, source: str) -> Figures:
    seconds = np.clip(price[: len(CALL_COSTS)], 0, SLOWEST_S).tolist()
    rates = (1 / np.clip(price[len(CALL_COSTS) :], 1 / FASTEST_BPS, 1)).reshape(len(RATES), -1).tolist()
    named: dict[str, Any] = dict(zip((*CALL_COSTS, *RATES), [*seconds, *map(tuple, rates)], strict=True))
    return Figures(**named, source=source)
