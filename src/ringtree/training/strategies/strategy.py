"""A way to divide training over ranks: what it does to the model, and what it sends.

Its file says in its docstring what is divided, what is sent when, and the bytes of a step as a formula.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ringtree.training.core.plan import Plan
from ringtree.training.core.traffic import Traffic

if TYPE_CHECKING:
    from torch import nn
    from torch.optim import Optimizer

    from ringtree.training.core.mesh import Mesh
    from ringtree.training.core.step import ForwardBackward


@dataclass(frozen=True, slots=True)
class Strategy:
    """`used(plan)`: whether a plan asks for it. `check(plan)`: LayoutError, with the reason, where it cannot go with
    the rest; all are asked. `apply(model, plan, mesh)`: the model as this rank has it, given the one that the
    strategies before it made. `traffic(plan)`: what a step sends. `axis`: its option of the command.

    `optimizer` and `forward_backward`, given the model as all strategies have made it: what takes the place of the
    trainer's, where a strategy has one; of several the first. `after_backward`: what is left to do for the gradients
    when all passes of a step are made, before the optimizer's step.

    Of the k-th rank along `axis`: `places(plan, k)`, those of each sequence that it has, where not all have all;
    `counted(model, plan, k)`, bytes that it has sent so far of the traffic that is known `at_most`, by what they carry.
    """

    name: str
    axis: str
    used: Callable[[Plan], bool]
    check: Callable[[Plan], None]
    apply: Callable[[nn.Module, Plan, Mesh], nn.Module]
    traffic: Callable[[Plan], Iterable[Traffic]]
    optimizer: Callable[[nn.Module, Plan, Mesh], Optimizer] | None = None
    forward_backward: Callable[[nn.Module, Plan, Mesh], ForwardBackward] | None = None
    after_backward: Callable[[nn.Module], None] | None = None
    places: Callable[[Plan, int], list[int]] | None = None
    counted: Callable[[nn.Module, Plan, int], dict[str, int]] | None = None
