"""Sequence parallelism (torch's SequenceParallel): between the layers each tensor parallel rank has some of the
positions, where without it every rank has all.

- The layers are divided as in tensor parallelism. Norms and sums are made by each rank of its own positions, from
  behind the embedding to before the scores, which see all positions; each rank makes those of its part of the
  vocabulary (vocabulary.py).
- In forward, an all_gather brings the positions together before attention and before the dense layers, and a
  reduce_scatter adds up the parts behind them; a reduce_scatter more behind the embedding, and an all_gather before the
  scores. In backward each is the other. Before the optimizer's step, or wherever ZeRO averages gradients, an all_reduce
  adds up those of each norm's vectors.

Bytes a rank receives in a step, over n ranks, with activations of A bytes (rows x positions x width), L layers, and
norms of N bytes: (8 L + 4) (n-1)/n A, as much as tensor parallelism, and 12 L in place of 8 L of blocks that are
computed again; 2(n-1)/n N; (n-1)/n of the positions' own vectors
for each micro-batch; and the loss's.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ringtree.training.core.layout import LayoutError
from ringtree.training.core.placement import layer_count, shapes_at
from ringtree.training.core.plan import TrainingPlan
from ringtree.training.core.sizes import activations_nbytes, micro_batch_nbytes, norms_nbytes
from ringtree.training.strategies.data.zero2 import reductions
from ringtree.training.strategies.strategy import RankCalls, Strategy, Traffic
from ringtree.training.strategies.tensor import vocabulary
from ringtree.training.strategies.tensor.tensor_parallel import ACTIVATIONS, cut, in_a_block

if TYPE_CHECKING:
    from torch import nn

    from ringtree.training.core.mesh import TrainingMesh


NORMS = "gradients of norms"
PLACES = "gradients of positions"


def used(plan: TrainingPlan) -> bool:
    """Whether tensor parallel ranks divide positions between the divided layers."""
    return plan.layout.sp


def check(plan: TrainingPlan) -> None:
    """Raises LayoutError unless tensor parallelism is used and positions divide evenly over its ranks."""
    layout = plan.layout
    if not layout.sp:
        return
    if layout.tp == 1:
        raise LayoutError("sequence parallel divides positions over the tensor parallel ranks: sp needs tp > 1")
    if plan.positions % layout.tp:
        raise LayoutError(
            f"{plan.positions} positions cannot be divided evenly over {layout.tp} tensor parallel ranks (sp)"
        )


def apply(model: nn.Module, plan: TrainingPlan, mesh: TrainingMesh) -> nn.Module:
    """Divides each block's layers by columns and rows, the vocabulary, and the activations between them by
    positions."""
    from torch.distributed.tensor import Shard
    from torch.distributed.tensor.parallel import SequenceParallel, parallelize_module

    norm = SequenceParallel(use_local_output=True)
    styles = cut(Shard(1), plan.shape.gated) | {"before_attention": norm, "before_dense": norm}
    for block in model.blocks.values():
        parallelize_module(block, mesh["tp"], styles)
    if model.norm is not None:
        parallelize_module(model.norm, mesh["tp"], norm)
    vocabulary.divide(model, plan, mesh["tp"])
    return model


def sum_norms(model: nn.Module) -> None:
    """Adds up the ranks' gradients of the norms, each of its own positions."""
    from torch.distributed.tensor import DTensor

    for parameter in model.parameters():
        gradient = parameter.grad
        if isinstance(gradient, DTensor) and gradient.placements != parameter.placements:
            parameter.grad = gradient.redistribute(placements=parameter.placements)


def traffic(plan: TrainingPlan) -> Iterable[Traffic]:
    """all_gather before and reduce_scatter after each divided pair of layers, forward and backward, and one of each for
    embedding and scores."""
    layout = plan.layout
    nbytes = (in_a_block(plan) * plan.shape.layers + vocabulary.TIMES) * activations_nbytes(plan)
    yield Traffic(ACTIVATIONS, "all_gather", "tp", layout.tp, nbytes)
    yield Traffic(ACTIVATIONS, "reduce_scatter", "tp", layout.tp, nbytes)
    passes = layout.pieces * layout.cp * layout.micro_batches
    yield Traffic(PLACES, "all_gather", "tp", layout.tp, passes * _places_nbytes(plan))
    yield vocabulary.loss_traffic(plan)
    times = layout.size("data") * _norm_sums(plan)
    yield Traffic(NORMS, "all_reduce", "tp", layout.tp, times * norms_nbytes(plan))


def _norm_sums(plan: TrainingPlan) -> int:
    """The number of times that a step adds up the gradients of a norm."""
    return reductions(plan) if plan.layout.zero >= 2 else 1


def _places_nbytes(plan: TrainingPlan) -> int:
    """The bytes of the vectors of a rank's positions, which are the same for all rows."""
    return plan.element_nbytes * plan.positions * plan.shape.width


def calls(plan: TrainingPlan, position: int) -> Iterable[RankCalls]:
    """The all_gathers and reduce_scatters of activations of each of the rank's layers and each micro-batch, one of each
    for embedding and scores on the ranks that have them; an all_reduce for each norm's vector; and the loss's."""
    layout, nbytes = plan.layout, micro_batch_nbytes(plan)
    blocks = in_a_block(plan) * layer_count(plan, position)
    times = (blocks + vocabulary.ends(plan, position)) * layout.micro_batches
    yield RankCalls(ACTIVATIONS, "all_gather", "tp", times, nbytes)
    yield RankCalls(ACTIVATIONS, "reduce_scatter", "tp", times, nbytes)
    if position == 0:
        yield RankCalls(PLACES, "all_gather", "tp", layout.micro_batches, _places_nbytes(plan))
    yield from vocabulary.loss_calls(plan, position)
    vectors = sum("norm." in name or ".before_" in name for name, _ in shapes_at(plan, position))
    yield RankCalls(NORMS, "all_reduce", "tp", vectors * _norm_sums(plan), plan.element_nbytes * plan.shape.width)


STRATEGY = Strategy(
    "sequence parallel",
    "sp",
    used,
    check,
    apply,
    traffic,
    calls,
    after_backward=sum_norms,
    around=vocabulary.divided_loss,
)
