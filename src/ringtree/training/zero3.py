"""ZeRO 3 (torch's FSDP2): parameters are divided, too, and a rank never has more of them than it is at.

- Each rank keeps a part of every parameter, of its gradient and of the optimizer's state, as in ZeRO 2.
- A block's parameters are gathered (all_gather) before each forward pass through it and given up after; gathered again
  before the backward pass, and given up after.
- After each backward pass through a block its gradients are averaged and divided (reduce_scatter).

Bytes a rank receives in a step, over n ranks, with P bytes of parameters and m micro-batches: 3 m (n-1)/n P, P being
filled up as in ZeRO 2. What is outside of the blocks is one more of them, which is gathered around all others.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ringtree.training.plan import Plan
from ringtree.training.sizes import padded_nbytes
from ringtree.training.strategy import Strategy
from ringtree.training.traffic import Traffic
from ringtree.training.zero2 import check, shard

if TYPE_CHECKING:
    from torch import nn

    from ringtree.training.mesh import Mesh


def used(plan: Plan) -> bool:
    return plan.layout.zero == 3


def apply(model: nn.Module, plan: Plan, mesh: Mesh) -> nn.Module:
    shard(model, mesh, keep=False)
    return model


def traffic(plan: Plan) -> Iterable[Traffic]:
    layout = plan.layout
    ranks = layout.dp * layout.cp * layout.ep
    nbytes = padded_nbytes(plan, ranks) * layout.micro_batches
    yield Traffic("parameters", "all_gather", "data", ranks, 2 * nbytes)
    yield Traffic("gradients", "reduce_scatter", "data", ranks, nbytes)


STRATEGY = Strategy("ZeRO 3", "zero", used, check, apply, traffic)
