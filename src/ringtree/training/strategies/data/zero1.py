"""ZeRO 1 (torch's ZeroRedundancyOptimizer): data parallelism whose ranks divide the optimizer's state among them.

- Each rank has the state of its share of the parameters: whole ones, given to whoever has least, the largest first.
- Gradients are averaged in backward, as in data parallelism, whose bytes those are (data_parallel.py).
- Each rank then changes its share of the parameters, and broadcasts them.

Bytes a rank receives in a step, over n ranks with P bytes of parameters: 2(n-1)/n P for the gradients and, on average,
(n-1)/n P for the parameters. What it holds: P, as much of gradients, and of optimizer state, on average, P/n a kind.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ringtree.training.core.layout import LayoutError
from ringtree.training.core.plan import TrainingPlan
from ringtree.training.core.sizes import parameters_nbytes
from ringtree.training.strategies.strategy import Strategy, Traffic, by_name

if TYPE_CHECKING:
    from torch import nn

    from ringtree.training.core.mesh import TrainingMesh


def used(plan: TrainingPlan) -> bool:
    return plan.layout.zero == 1


def check(plan: TrainingPlan) -> None:
    """Of all of ZeRO."""
    layout = plan.layout
    if layout.zero and layout.size("data") == 1:
        raise LayoutError(f"zero {layout.zero} divides among data parallel ranks, and there is one; give dp, cp or ep")
    if layout.zero == 1 and layout.tp > 1:
        raise LayoutError("zero 1 is torch's ZeroRedundancyOptimizer, which knows no DTensors; with tp use zero 2 or 3")


def traffic(plan: TrainingPlan) -> Iterable[Traffic]:
    yield Traffic("parameters", "broadcast", "data", plan.layout.size("data"), parameters_nbytes(plan))


def apply(model: nn.Module, plan: TrainingPlan, mesh: TrainingMesh) -> nn.Module:
    return model


STRATEGY = Strategy("ZeRO 1", "zero", used, check, apply, traffic, optimizer=by_name("data.replicas", "optimizer"))
