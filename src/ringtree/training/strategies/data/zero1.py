"""ZeRO 1 (torch's ZeroRedundancyOptimizer): data parallelism whose ranks divide the optimizer's state.

- Each rank keeps the state of whole parameters: the largest parameter first, each to the rank with the fewest bytes.
- all_reduce averages gradients in backward, as in data parallelism (data_parallel.py).
- Each rank then updates its share of the parameters, and broadcasts the share; a tensor parallel rank its part of it.

Bytes that a rank receives in a step, over n ranks with P bytes of parameters: 2(n-1)/n P of gradients and, on average,
(n-1)/n P of parameters. Bytes that a rank holds: P of parameters, P of gradients and, on average, P/n of each kind of
optimizer state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from math import prod
from typing import TYPE_CHECKING

from ringtree.training.core.layout import LayoutError
from ringtree.training.core.placement import shapes_at
from ringtree.training.core.plan import TrainingPlan
from ringtree.training.core.sizes import held_nbytes
from ringtree.training.strategies.strategy import RankCalls, Strategy, Traffic, by_name

if TYPE_CHECKING:
    from torch import nn

    from ringtree.training.core.mesh import TrainingMesh


PARAMETERS = "parameters"


def used(plan: TrainingPlan) -> bool:
    """Whether the layout asks for ZeRO 1."""
    return plan.layout.zero == 1


def check(plan: TrainingPlan) -> None:
    """Raises LayoutError where a ZeRO stage, 1 to 3, does not fit the layout."""
    layout = plan.layout
    if layout.zero and layout.size("data") == 1:
        raise LayoutError(f"zero {layout.zero} divides among data parallel ranks, and there is one; give dp, cp or ep")


def traffic(plan: TrainingPlan) -> Iterable[Traffic]:
    """The broadcast of each rank's share of the parameters after the optimizer's step."""
    yield Traffic(PARAMETERS, "broadcast", "data", plan.layout.size("data"), held_nbytes(plan))


def calls(plan: TrainingPlan, position: int) -> Iterable[RankCalls]:
    """A broadcast for each parameter."""
    for nbytes, times in Counter(plan.element_nbytes * prod(size) for _, size in shapes_at(plan, position)).items():
        yield RankCalls(PARAMETERS, "broadcast", "data", times, nbytes)


def apply(model: nn.Module, plan: TrainingPlan, mesh: TrainingMesh) -> nn.Module:
    """Returns the model unchanged: ZeRO 1 replaces the optimizer alone."""
    return model


STRATEGY = Strategy(
    "ZeRO 1", "zero", used, check, apply, traffic, calls, optimizer=by_name("data.replicas", "optimizer")
)
