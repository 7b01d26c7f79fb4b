"""Data parallelism (torch's DistributedDataParallel): each rank has the whole model and a share of the rows.

- At the start, rank 0's parameters are broadcast.
- In backward, gradients are averaged over the ranks by all_reduce, a bucket at a time as they become ready, while the
  rest of backward goes on; of several micro-batches, once, with the last. Every rank then makes the same optimizer
  step.
- Gradients of divided experts (expert_parallel.py) are averaged likewise, over the ranks that have the same experts.

Bytes a rank receives in a step, over n ranks with P bytes of parameters: 2(n-1)/n P; where E bytes of a rank's are of
experts that m ranks have: 2(n-1)/n (P-E) + 2(m-1)/m E. In the second step DDP rebuilds its buckets in the order in
which gradients became ready, and broadcasts that order once: some hundred bytes.

DDP does not support DTensors: with tensor parallelism torch's `replicate` (FSDP2 without dividing) averages each
rank's parts of the parameters, in one all_reduce.
"""

from __future__ import annotations

from collections.abc import Iterable

from ringtree.training.core.layout import LayoutError
from ringtree.training.core.plan import TrainingPlan
from ringtree.training.core.sizes import EXPERTS, held_nbytes
from ringtree.training.strategies.strategy import Strategy, Traffic, by_name

SECOND_STEP = "in its second step DDP sends all ranks the order of its buckets, once"


def used(plan: TrainingPlan) -> bool:
    """Whether several data parallel ranks have all parameters and gradients: no ZeRO, or ZeRO 1."""
    layout = plan.layout
    return layout.zero <= 1 and layout.staleness is None and layout.size("data") > 1


def check(plan: TrainingPlan) -> None:
    """Raises LayoutError unless the batch divides evenly over dp, ep and micro-batches."""
    pieces = plan.layout.pieces * plan.layout.micro_batches
    if plan.settings.batch % pieces:
        raise LayoutError(
            f"a batch of {plan.settings.batch} rows cannot be divided evenly into {pieces} parts "
            "(dp x ep x micro-batches)"
        )


def traffic(plan: TrainingPlan) -> Iterable[Traffic]:
    """The all_reduce of gradients, and of experts' gradients among the ranks that have the same experts."""
    data, same = plan.layout.size("data"), plan.layout.size("expert_data")
    experts_nbytes = held_nbytes(plan, EXPERTS) if plan.layout.ep > 1 else 0
    yield Traffic("gradients", "all_reduce", "data", data, held_nbytes(plan) - experts_nbytes)
    yield Traffic("experts' gradients", "all_reduce", "expert_data", same, experts_nbytes)


_apply, _passes = by_name("data.replicas", "apply"), by_name("data.replicas", "forward_backward")
STRATEGY = Strategy("data parallel", "dp", used, check, _apply, traffic, forward_backward=_passes)
