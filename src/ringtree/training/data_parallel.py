"""Data parallelism (torch's DistributedDataParallel): each rank has the whole model and a share of the rows.

- At the start, rank 0's parameters are broadcast.
- In backward, gradients are averaged over the ranks by all_reduce, a bucket at a time as they become ready, while the
  rest of backward goes on; of several micro-batches, once, with the last. Every rank then makes the same optimizer
  step.

Bytes a rank receives in a step, over n ranks with P bytes of parameters: 2(n-1)/n P.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ringtree.training.layout import LayoutError
from ringtree.training.plan import Plan
from ringtree.training.sizes import parameters_nbytes
from ringtree.training.strategy import Strategy
from ringtree.training.traffic import Traffic

if TYPE_CHECKING:
    from torch import nn

    from ringtree.training.mesh import Mesh
    from ringtree.training.step import ForwardBackward


def used(plan: Plan) -> bool:
    layout = plan.layout
    return layout.zero <= 1 and layout.staleness is None and layout.dp * layout.cp * layout.ep > 1


def check(plan: Plan) -> None:
    pieces = plan.layout.pieces * plan.layout.micro_batches
    if plan.settings.batch % pieces:
        raise LayoutError(
            f"a batch of {plan.settings.batch} rows cannot be divided evenly into {pieces} parts "
            "(dp x ep x micro-batches)"
        )


def apply(model: nn.Module, plan: Plan, mesh: Mesh) -> nn.Module:
    from torch.nn.parallel import DistributedDataParallel

    return DistributedDataParallel(model, process_group=mesh.group("data"))


def forward_backward(model: nn.Module, plan: Plan, mesh: Mesh) -> ForwardBackward:
    from ringtree.training.step import MicroBatches

    def begin(last: bool) -> None:
        model.require_backward_grad_sync = last

    return MicroBatches(model, plan.layout.micro_batches, begin)


def traffic(plan: Plan) -> Iterable[Traffic]:
    ranks = plan.layout.dp * plan.layout.cp * plan.layout.ep
    yield Traffic("gradients", "all_reduce", "data", ranks, parameters_nbytes(plan))


STRATEGY = Strategy("data parallel", "dp", used, check, apply, traffic, forward_backward=forward_backward)
