"""ZeRO 3 (torch's FSDP2): parameters are divided, too, and a rank never has more of them than it is at.

- Each rank keeps a part of every parameter, of its gradient and of the optimizer's state, as in ZeRO 2.
- A block's parameters are gathered (all_gather) before each forward pass through it and given up after; gathered again
  before the backward pass, and given up after.
- After each backward pass through a block its gradients are averaged and divided (reduce_scatter).

Bytes a rank receives in a step, over n ranks, with P bytes of parameters and m micro-batches: 3 m (n-1)/n P, P being
filled up as in ZeRO 2. What is outside of the blocks is one more of them, which is gathered around all others.

A pipeline's stages keep parameters after a backward pass until the next forward pass is made, and whole gradients until
all passes are: each pass that follows a forward one gathers, as the first one does, so m + 1 do, and (n-1)/n (m + 2) P.
"""

from __future__ import annotations

from collections.abc import Iterable

from ringtree.training.core.plan import TrainingPlan
from ringtree.training.strategies.data.zero2 import check, divided, reductions
from ringtree.training.strategies.strategy import Strategy, Traffic, by_name


def used(plan: TrainingPlan) -> bool:
    return plan.layout.zero == 3


def traffic(plan: TrainingPlan) -> Iterable[Traffic]:
    layout = plan.layout
    gathers = 2 * layout.micro_batches if layout.pp == 1 else layout.micro_batches + 1
    for whose, axis, ranks, nbytes in divided(plan):
        yield Traffic(f"{whose}parameters", "all_gather", axis, ranks, nbytes * gathers)
        yield Traffic(f"{whose}gradients", "reduce_scatter", axis, ranks, nbytes * reductions(plan))


STRATEGY = Strategy("ZeRO 3", "zero", used, check, by_name("data.shards", "give_up"), traffic)
