"""Tensor parallelism (torch's parallelize_module): every layer's matrices, embedding and scores divided over ranks that
see the same rows.

- Queries, keys and values are cut by columns, so a rank has some of the heads, and what joins the heads by rows. Of
  the two dense layers, the first is cut by columns, the second by rows; of gated ones, the first two by columns. Norms
  and the vectors of positions are whole on every rank: nothing is sent for them. Of the vocabulary: vocabulary.py.
- In forward, an all_reduce adds up the parts of attention's result, another those of the dense layers'. In backward, an
  all_reduce each adds up the gradients of what went in: of queries, keys and values together. A block that is computed
  again has its two of forward again.

Bytes a rank receives in a step, over n ranks, with activations of A bytes (rows x positions x width) and L layers:
4 L 2(n-1)/n A, of blocks that are computed again 6 L 2(n-1)/n A; and those of the vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ringtree.ir import units
from ringtree.training.core.layout import LayoutError
from ringtree.training.core.placement import layer_count
from ringtree.training.core.plan import TrainingPlan
from ringtree.training.core.sizes import activations_nbytes, micro_batch_nbytes
from ringtree.training.strategies.strategy import RankCalls, Strategy, Traffic
from ringtree.training.strategies.tensor import vocabulary

if TYPE_CHECKING:
    from torch import nn
    from torch.distributed.tensor import Placement
    from torch.distributed.tensor.parallel import ParallelStyle

    from ringtree.training.core.mesh import TrainingMesh


ACTIVATIONS = "activations and their gradients"


def used(plan: TrainingPlan) -> bool:
    """Whether several ranks divide each layer and all of them have whole activations."""
    return plan.layout.tp > 1 and not plan.layout.sp


def check(plan: TrainingPlan) -> None:
    """Raises LayoutError unless attention heads, those of keys and values too, and the width between the dense layers
    divide evenly over the ranks."""
    shape, ranks = plan.shape, f"{plan.layout.tp} tensor parallel ranks (tp)"
    if shape.heads % plan.layout.tp:
        raise LayoutError(f"{shape.heads} heads of attention cannot be divided evenly over {ranks}")
    if shape.key_value_heads % plan.layout.tp:
        raise LayoutError(
            f"{units.count(shape.key_value_heads, 'key-value head')} cannot be divided evenly over {ranks}: use a --tp "
            "that divides them"
        )
    if shape.feed_forward_width % plan.layout.tp and not shape.experts:
        raise LayoutError(
            f"a feed-forward width of {shape.feed_forward_width} cannot be divided evenly over {ranks}: use another "
            "--ffn-width"
        )
    vocabulary.check(plan)


def apply(model: nn.Module, plan: TrainingPlan, mesh: TrainingMesh) -> nn.Module:
    """Divides each block's layers by columns and rows over the tensor parallel ranks, and the vocabulary."""
    from torch.distributed.tensor import Replicate
    from torch.distributed.tensor.parallel import parallelize_module

    for block in model.blocks.values():
        parallelize_module(block, mesh["tp"], cut(Replicate(), plan.shape.gated))
    vocabulary.divide(model, plan, mesh["tp"])
    return model


def cut(between: Placement, gated: bool) -> dict[str, ParallelStyle]:
    """The division of a block's layers. `between`: the placement of activations from one to the next, Replicate(), or
    Shard(1): of positions. `gated`: whether the dense layers have a gate."""
    from torch.distributed.tensor import Replicate
    from torch.distributed.tensor.parallel import ColwiseParallel, PrepareModuleInput, RowwiseParallel

    # Made a DTensor here and not by each layer that reads it, an input has its gradients added up before they are sent.
    read = PrepareModuleInput(input_layouts=between, desired_input_layouts=Replicate())
    columns, rows = ColwiseParallel(), RowwiseParallel(output_layouts=between)
    return {
        "attention": read,
        "attention.query": columns,
        "attention.key": columns,
        "attention.value": columns,
        "attention.joined": rows,
        "dense": read,
        **({"dense.gate": columns} if gated else {}),
        "dense.up": columns,
        "dense.down": rows,
    }


def traffic(plan: TrainingPlan) -> Iterable[Traffic]:
    """Two all_reduces of activations a layer in each forward pass, two in backward; and the vocabulary's."""
    nbytes = (in_a_block(plan) * plan.shape.layers + vocabulary.TIMES) * activations_nbytes(plan)
    yield Traffic(ACTIVATIONS, "all_reduce", "tp", plan.layout.tp, nbytes)
    yield vocabulary.loss_traffic(plan)


def in_a_block(plan: TrainingPlan) -> int:
    """The number of times that a block's activations, or their gradients, are added up."""
    return 2 * plan.layout.forwards + 2


def calls(plan: TrainingPlan, position: int) -> Iterable[RankCalls]:
    """The all_reduces of activations of each of the rank's layers and each micro-batch, one for each of embedding and
    scores, and the loss's."""
    blocks = in_a_block(plan) * layer_count(plan, position)
    times = (blocks + vocabulary.ends(plan, position)) * plan.layout.micro_batches
    yield RankCalls(ACTIVATIONS, "all_reduce", "tp", times, micro_batch_nbytes(plan))
    yield from vocabulary.loss_calls(plan, position)


STRATEGY = Strategy("tensor parallel", "tp", used, check, apply, traffic, calls, around=vocabulary.divided_loss)
