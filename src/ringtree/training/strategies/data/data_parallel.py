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

from collections import Counter
from collections.abc import Iterable, Iterator
from math import prod

from ringtree.training.core.layout import LayoutError
from ringtree.training.core.placement import layers, shapes_at
from ringtree.training.core.plan import TrainingPlan
from ringtree.training.core.sizes import EXPERTS, held_nbytes
from ringtree.training.strategies.strategy import RankCalls, Strategy, Traffic, by_name

GRADIENTS, EXPERTS_GRADIENTS = "gradients", "experts' gradients"
FIRST_BUCKET_NBYTES, BUCKET_NBYTES = 1 << 20, 25 << 20
"""DDP's defaults."""
SECOND_STEP = "in its second step DDP sends all ranks the order of its buckets, once"


def used(plan: TrainingPlan) -> bool:
    """Whether several data parallel ranks have all parameters and gradients: no ZeRO, or ZeRO 1."""
    layout = plan.layout
    return layout.zero <= 1 and layout.staleness is None and layout.size("data") > 1


def check(plan: TrainingPlan) -> None:
    """Raises LayoutError unless the batch divides evenly over dp, ep and micro-batches."""
    layout, batch = plan.layout, plan.settings.batch
    for parts, of in ((layout.pieces, "dp x ep"), (layout.pieces * layout.micro_batches, "dp x ep x micro-batches")):
        if batch % parts:
            raise LayoutError(f"a batch of {batch} rows cannot be divided evenly into {parts} parts ({of})")


def traffic(plan: TrainingPlan) -> Iterable[Traffic]:
    """The all_reduce of gradients, and of experts' gradients among the ranks that have the same experts."""
    data, same = plan.layout.size("data"), plan.layout.size("expert_data")
    experts_nbytes = held_nbytes(plan, EXPERTS) if plan.layout.ep > 1 else 0
    yield Traffic(GRADIENTS, "all_reduce", "data", data, held_nbytes(plan) - experts_nbytes)
    yield Traffic(EXPERTS_GRADIENTS, "all_reduce", "expert_data", same, experts_nbytes)


def calls(plan: TrainingPlan, position: int) -> Iterable[RankCalls]:
    """An all_reduce for each bucket of gradients, with tensor parallelism one of all; and for each stack of experts.
    Which gradients come into a bucket follows the order in which they become ready, taken for the model's, reversed."""
    divided = plan.layout.ep > 1
    dense = [
        (name, _nbytes(plan, size)) for name, size in shapes_at(plan, position) if not (divided and EXPERTS in name)
    ]
    for nbytes, times in Counter(_buckets(plan, position, dense)).items():
        yield RankCalls(GRADIENTS, "all_reduce", "data", times, nbytes)
    stacks = [size for name, size in shapes_at(plan, position) if divided and EXPERTS in name]
    for nbytes, times in Counter(_nbytes(plan, size) // plan.layout.ep for size in stacks).items():
        yield RankCalls(EXPERTS_GRADIENTS, "all_reduce", "expert_data", times, nbytes)


def _nbytes(plan: TrainingPlan, size: Iterable[int]) -> int:
    return plan.element_nbytes * prod(size)


def _buckets(plan: TrainingPlan, position: int, gradients: Iterable[tuple[str, int]]) -> Iterator[int]:
    """Yields the bytes of each bucket of a rank's gradients, given as (name, bytes) in the model's order. A bucket is
    closed when it has BUCKET_NBYTES, the first one FIRST_BUCKET_NBYTES; each stage of a pipeline has its own."""
    left = dict(gradients)
    for stage in layers(plan, position):
        numbers = {str(k) for k in stage}
        mine = [n for n in left if n.split(".")[0] != "blocks" or n.split(".")[1] in numbers]
        if stage[0] > 0:
            mine = [n for n in mine if not n.startswith("embedding.")]
        if stage[-1] < plan.shape.layers - 1:
            mine = [n for n in mine if not n.startswith(("norm.", "scores."))]
        filled, limit = 0, FIRST_BUCKET_NBYTES
        for name in reversed(mine):
            filled += left[name]
            if filled >= limit and plan.layout.tp == 1:
                yield filled
                filled, limit = 0, BUCKET_NBYTES
        if filled:
            yield filled


_apply, _passes = by_name("data.replicas", "apply"), by_name("data.replicas", "forward_backward")
STRATEGY = Strategy("data parallel", "dp", used, check, _apply, traffic, calls, forward_backward=_passes)
