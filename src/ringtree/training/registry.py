"""The strategies, in the order in which they are applied to a model: a new one is a file and a line here."""

from __future__ import annotations

from ringtree.training import data_parallel, tensor_parallel
from ringtree.training.plan import Plan
from ringtree.training.strategy import Strategy
from ringtree.training.traffic import Traffic

STRATEGIES: tuple[Strategy, ...] = (tensor_parallel.STRATEGY, data_parallel.STRATEGY)


def traffic(plan: Plan) -> tuple[Traffic, ...]:
    """What a step of the plan sends, strategy by strategy."""
    return tuple(t for strategy in STRATEGIES if strategy.used(plan) for t in strategy.traffic(plan))
