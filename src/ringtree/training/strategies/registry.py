"""The strategies, in the order in which they are applied to a model: a new one is a file and a line here."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ringtree.training.core.layout import AXES, LayoutError
from ringtree.training.core.plan import TrainingPlan
from ringtree.training.core.sizes import parameters
from ringtree.training.core.text import check_length
from ringtree.training.strategies.asynchronous import asynchronous
from ringtree.training.strategies.context import context_parallel
from ringtree.training.strategies.data import data_parallel, zero1, zero2, zero3
from ringtree.training.strategies.experts import expert_parallel
from ringtree.training.strategies.layers import layer_split, pipeline
from ringtree.training.strategies.strategy import RankCalls, Strategy, Traffic
from ringtree.training.strategies.tensor import sequence_parallel, tensor_parallel

STRATEGIES: tuple[Strategy, ...] = (
    layer_split.STRATEGY,
    pipeline.STRATEGY,
    context_parallel.STRATEGY,
    tensor_parallel.STRATEGY,
    sequence_parallel.STRATEGY,
    expert_parallel.STRATEGY,
    data_parallel.STRATEGY,
    zero1.STRATEGY,
    zero2.STRATEGY,
    zero3.STRATEGY,
    asynchronous.STRATEGY,
)


def check(plan: TrainingPlan) -> None:
    """Raises LayoutError, with the reason, where the parts of a plan conflict; checks each strategy in turn. ValueError
    where the text is too short for the model's sequences."""
    check_length(plan.shape.context)
    slow = plan.settings.slow_rank
    if slow is not None and not 0 <= slow < plan.layout.ranks:
        raise LayoutError(f"slow_rank is {slow}; expected one of the ranks 0..{plan.layout.ranks - 1}")
    if slow is not None and plan.layout.pp > 1:
        raise LayoutError("slow_rank goes with ranks that have all layers: a pipeline's do not (pp)")
    if plan.shape.tied and plan.layout.pp > 1:
        raise LayoutError(
            "the scores' matrix is the embedding's (tied), and a pipeline's first stage has the one and its last stage "
            "the other (pp): leave --tied out"
        )
    for strategy in STRATEGIES:
        strategy.check(plan)


def traffic(plan: TrainingPlan) -> tuple[Traffic, ...]:
    """The calls of one step of the plan, strategy by strategy."""
    return tuple(t for strategy in STRATEGIES if strategy.used(plan) for t in strategy.traffic(plan))


def calls(plan: TrainingPlan, position: int) -> tuple[RankCalls, ...]:
    """The calls of one step of a rank at a position of "pp" that put bytes on the wire, strategy by strategy."""
    strategies = (s.calls for s in STRATEGIES if s.used(plan) and s.calls is not None)
    every = (call for calls_of in strategies for call in calls_of(plan, position))
    return tuple(c for c in every if c.times and c.nbytes and plan.layout.size(c.axis) > 1)


def named_groups(plan: TrainingPlan) -> list[tuple[list[str], tuple[tuple[int, ...], ...]]]:
    """Returns (axis names, groups): the groups of more than one rank along each axis, and the groups with traffic.
    Axes with the same groups share one entry."""
    found: dict[tuple[tuple[int, ...], ...], list[str]] = {}
    for name in dict.fromkeys([*AXES, *(t.axis for t in traffic(plan) if t.wire_nbytes)]):
        members = plan.layout.groups(name)
        if len(members[0]) > 1:
            found.setdefault(members, []).append(name)
    return [(names, members) for members, names in found.items()]


def record(plan: TrainingPlan) -> dict[str, Any]:
    """The plan and what follows from it, for JSON."""
    return {
        "plan": plan.record(),
        "ranks": plan.layout.ranks,
        "axes": {axis: getattr(plan.layout, axis) for axis in AXES},
        "strategies": [strategy.name for strategy in STRATEGIES if strategy.used(plan)],
        "groups": [{"names": names, "members": members} for names, members in named_groups(plan)],
        "parameters": parameters(plan),
    }


def traffic_record(plan: TrainingPlan) -> list[dict[str, Any]]:
    """The rows of `traffic` that put bytes on the wire, with these, for JSON."""
    return [asdict(t) | {"wire_nbytes": t.wire_nbytes} for t in traffic(plan) if t.wire_nbytes]
