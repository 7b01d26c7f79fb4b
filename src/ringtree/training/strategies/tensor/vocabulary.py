"""The vocabulary divided over tensor parallel ranks, by tensor parallelism and by sequence parallelism (torch's
loss_parallel).

- A rank has some of the embedding's rows, and makes the scores of the same tokens. It looks up the tokens that it has,
  with zeros for the others, and an all_reduce adds up the vectors. In backward an all_reduce adds up the gradients of
  what went into the scores.
- Where the ranks divide positions, reduce_scatters add these up, and behind each is an all_gather: of the gradients of
  the vectors, and of what goes into the scores. An all_gather more, of the gradients of the positions' own vectors.
- No rank has all scores of a token: the loss takes three all_reduces, each of a number a token: the highest score, the
  sum of the exponentials, the score of the token that follows.

Bytes a rank receives in a step, over n ranks, with activations of A bytes (rows x positions x width), of T tokens,
and elements of e bytes: 2 2(n-1)/n A, or 4 (n-1)/n A where the ranks divide positions; and 2(n-1)/n (8 + e) T
(Shoeybi and others: Megatron-LM, 2019, section 3).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from ringtree.training.core.layout import LayoutError
from ringtree.training.core.plan import FLOAT_NBYTES, TrainingPlan
from ringtree.training.strategies.strategy import RankCalls, Traffic

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.distributed.device_mesh import DeviceMesh

LOSS = "maxima, sums and picks of the scores"
TIMES = 2
"""The activations that are added up for it: the embedding's in forward, in backward those before the scores."""


def check(plan: TrainingPlan) -> None:
    """Raises LayoutError unless the vocabulary divides evenly over the ranks."""
    vocabulary, ranks = plan.shape.vocabulary, plan.layout.tp
    if vocabulary % ranks:
        raise LayoutError(
            f"a vocabulary of {vocabulary} cannot be divided evenly over {ranks} tensor parallel ranks (tp): use "
            f"--vocabulary {vocabulary + -vocabulary % ranks}"
        )


def divide(model: nn.Module, plan: TrainingPlan, ranks: DeviceMesh) -> None:
    """Divides embedding and scores, as far as the model has them."""
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        PrepareModuleOutput,
        RowwiseParallel,
        parallelize_module,
    )

    between = Shard(1) if plan.layout.sp else Replicate()
    if model.embedding is not None:
        looked_up = RowwiseParallel(input_layouts=Replicate(), output_layouts=between)
        mine = PrepareModuleOutput(output_layouts=Replicate(), desired_output_layouts=Shard(0))
        parallelize_module(model.embedding, ranks, {"bytes": looked_up, **({"places": mine} if plan.layout.sp else {})})
        model.embedding.bytes.weight.register_post_accumulate_grad_hook(_keep_own_rows)
    if model.scores is not None:
        own = ColwiseParallel(input_layouts=between, output_layouts=Shard(-1), use_local_output=False)
        parallelize_module(model.scores, ranks, own)
    if plan.shape.tied:  # torch has made a parameter for each
        model.embedding.bytes.weight = model.scores.weight


def _keep_own_rows(weight: Tensor) -> None:
    """Drops the gradient's rows of other ranks: torch's embedding gives each rank all of them."""
    if weight.grad.placements != weight.placements:
        weight.grad = weight.grad.redistribute(placements=weight.placements)


def divided_loss() -> AbstractContextManager[None]:
    """The context of forward and backward passes in which torch takes the loss of divided scores."""
    from torch.distributed.tensor.parallel import loss_parallel

    context: AbstractContextManager[None] = loss_parallel()
    return context


def loss_traffic(plan: TrainingPlan) -> Traffic:
    """The loss's all_reduces, of all tokens of a step."""
    tokens = plan.settings.batch * plan.shape.context
    return Traffic(LOSS, "all_reduce", "tp", plan.layout.tp, (2 * FLOAT_NBYTES + plan.element_nbytes) * tokens)


def loss_calls(plan: TrainingPlan, position: int) -> Iterable[RankCalls]:
    """Three all_reduces for each micro-batch, on the ranks that have the scores."""
    layout, tokens = plan.layout, plan.rows * plan.positions
    for nbytes, times in Counter((FLOAT_NBYTES, FLOAT_NBYTES, plan.element_nbytes)).items():
        if position == layout.pp - 1:
            yield RankCalls(LOSS, "all_reduce", "tp", times * layout.micro_batches, nbytes * tokens)


def ends(plan: TrainingPlan, position: int) -> int:
    """The number of embedding and scores that a rank at a position of "pp" has: 0, 1 or 2."""
    return (position == 0) + (position == plan.layout.pp - 1)
