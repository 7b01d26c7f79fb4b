"""Cost parameters from measured calls: those whose predictions are off by the smallest factors.

The Gauss-Newton method on the logarithms of parameters and times: a parameter is never below 0, and twice the time
counts as much as half of it. A parameter that the measurements do not determine stays near the built-in one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ringtree.price.memory.parameters import (
    BUILT_IN,
    CALL_COSTS,
    FASTEST_BPS,
    NODE_COSTS,
    OVERSUBSCRIBED_FETCH,
    RATES,
    CostParameters,
    SharedMemory,
)
from ringtree.price.memory.shared import SWITCH, TURN, Floats, Workload, costs, multiples

ITERATIONS = 30
LONGEST_STEP = 1.0
"""The largest step of a logarithm in one iteration."""
USUAL_ERROR = 0.05
"""Errors below it count squared, larger ones linearly: a few disturbed measurements have little effect."""
SMOOTH, USUAL = 0.15, 0.1
"""The weights, relative to an error, of a rate e times the next size's, and of a parameter e times the built-in one."""


@dataclass(frozen=True, slots=True)
class MeasuredCall:
    """One measured call on a whole vector of `nbytes`. Of `memory` the cores and slots count."""

    work: Workload
    memory: SharedMemory
    nbytes: int
    time_s: float

    @property
    def ranks(self) -> int:
        """Number of ranks of the call."""
        return self.work.counts.ranks


def fit(calls: Sequence[MeasuredCall], source: str = "") -> CostParameters:
    """The cost parameters of the machine that the calls were measured on: all that ranks with a core each pay from
    those, then what only others pay, such as turns; all at once where there is one core. A cost that no call has keeps
    its built-in parameter. ValueError where no call is of two ranks or more."""
    if not any(c.ranks > 1 for c in calls):
        raise ValueError("no measured call of two ranks or more; expected some to fit cost parameters to")
    apart = [c for c in calls if c.ranks <= c.memory.cores]
    oversubscribed = [c for c in calls if c.ranks > c.memory.cores]
    price = costs(BUILT_IN)
    turns, between = _in_turns(len(price)), np.arange(len(price)) >= len(price) - len(NODE_COSTS)
    measured = ~between | any(c.work.counts.links.shape[1] for c in calls)
    if not any(c.ranks > 1 for c in apart):
        return _parameters(_nearer(calls, price, measured), source)
    price = _nearer(apart, price, ~turns & measured)
    if oversubscribed:
        price = _nearer(oversubscribed, price, turns)
    return _parameters(price, source)


def errors(parameters: CostParameters, calls: Sequence[MeasuredCall]) -> tuple[float, float]:
    """The predictions' relative errors, as shares of the measured times: the median, and the 90th percentile."""
    found = np.abs(_times(calls, parameters) @ costs(parameters) / [c.time_s for c in calls] - 1)
    return float(np.median(found)), float(np.quantile(found, 0.9))


def _in_turns(costs: int) -> NDArray[np.bool_]:
    """The costs that only ranks which share a core pay."""
    sizes, found = len(BUILT_IN.memory_nbytes), np.zeros(costs, np.bool_)
    fetched = len(CALL_COSTS) + OVERSUBSCRIBED_FETCH * sizes
    found[[TURN, SWITCH, *range(fetched, fetched + sizes)]] = True
    return found


def _nearer(calls: Sequence[MeasuredCall], price: Floats, free: NDArray[np.bool_]) -> Floats:
    """The costs with which the calls are predicted best; only those that are `free` change."""
    took_s = np.array([c.time_s for c in calls])
    usual, alike = np.log(costs(BUILT_IN)), _alike(len(BUILT_IN.memory_nbytes))
    for _ in range(ITERATIONS):
        shares = _times(calls, _parameters(price)) * price  # the busiest rank depends on the parameters
        guess_s = shares.sum(axis=1)
        off = np.log(guess_s / took_s)
        trust = 1 / np.sqrt(np.maximum(np.abs(off) / USUAL_ERROR, 1.0))
        now = np.log(price)
        rows = np.concatenate([shares / guess_s[:, None] * trust[:, None], SMOOTH * alike, USUAL * np.eye(len(price))])
        wanted = -np.concatenate([off * trust, SMOOTH * alike @ now, USUAL * (now - usual)])
        step = np.zeros(len(price))
        step[free] = np.linalg.lstsq(rows[:, free], wanted, rcond=None)[0]
        price = np.maximum(price * np.exp(np.clip(step, -LONGEST_STEP, LONGEST_STEP)), 1 / FASTEST_BPS)
    return price


def _times(calls: Sequence[MeasuredCall], parameters: CostParameters) -> Floats:
    """[calls, costs]: how often each call pays each cost."""
    return np.array([multiples(c.work, replace(c.memory, parameters=parameters), c.nbytes) for c in calls])


def _alike(sizes: int) -> Floats:
    """[pairs, costs]: the difference of each rate's logarithm to that for the next size."""
    pairs = [k for k in range(len(RATES) * sizes) if (k + 1) % sizes]
    rows = np.zeros((len(pairs), len(CALL_COSTS) + len(RATES) * sizes + len(NODE_COSTS)))
    for row, k in zip(rows, pairs, strict=True):
        row[len(CALL_COSTS) + k : len(CALL_COSTS) + k + 2] = 1, -1
    return rows


def _parameters(price: Floats, source: str = "") -> CostParameters:
    between = len(price) - len(NODE_COSTS)
    *seconds, across_s = np.minimum([*price[: len(CALL_COSTS)], price[between]], 1.0).tolist()
    rates_Bps = 1 / np.clip(price, 1 / FASTEST_BPS, 1)
    rates = rates_Bps[len(CALL_COSTS) : between].reshape(len(RATES), -1).tolist()
    across = [across_s, *rates_Bps[between + 1 :].tolist()]
    names = *CALL_COSTS, *RATES, *NODE_COSTS
    named: dict[str, Any] = dict(zip(names, [*seconds, *map(tuple, rates), *across], strict=True))
    return CostParameters(**named, source=source)
