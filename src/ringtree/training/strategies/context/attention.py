"""Attention to a whole sequence of which each rank has a part: by `ring`, or positions are exchanged for heads, and
back.

By `ulysses`, all_to_all gives each rank all positions of its share of the heads, whose attention is that of one
process; another takes the result back (Jacobs and others: DeepSpeed Ulysses, 2023). Queries, keys and values go in
one call. Backward is the same in the other direction.
"""

from __future__ import annotations

from functools import partial

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from ringtree.training.core.language_model import Attention, Embedding
from ringtree.training.core.mesh import TrainingMesh
from ringtree.training.core.plan import TrainingPlan
from ringtree.training.strategies.all_to_all import all_to_all
from ringtree.training.strategies.context.context_parallel import is_ring, positions
from ringtree.training.strategies.context.operands import check
from ringtree.training.strategies.context.ring_attention import ring_attention

HEADS, POSITIONS = -3, -2
"""Dimensions."""


def ulysses(q: Tensor, k: Tensor, v: Tensor, group: dist.ProcessGroup, causal: bool = True) -> Tensor:
    """This rank's positions of softmax(q k^T / sqrt(width)) v over the positions of all ranks of `group`; all tensors
    [rows, heads, positions, width], of one shape on all ranks; k and v may have fewer heads, each of as many heads of q
    (grouped queries), and go in a call of their own then. This rank's positions are part r of the n of the sequence.

    ValueError: if the tensors do not fit each other, or the ranks cannot divide the heads evenly.
    """
    check(f"ulysses on rank {group.rank()}", q, k, v)
    for heads in (q.shape[HEADS], k.shape[HEADS]):
        if heads % group.size():
            raise ValueError(f"{heads} heads cannot be divided evenly among {group.size()} context parallel ranks")
    grouped = k.shape != q.shape
    if grouped:
        q = _exchange(q, HEADS, POSITIONS, group)
        k, v = _exchange(torch.stack((k, v)), HEADS, POSITIONS, group)
    else:
        q, k, v = _exchange(torch.stack((q, k, v)), HEADS, POSITIONS, group)
    out = scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=grouped)
    return _exchange(out, POSITIONS, HEADS, group)


def _exchange(x: Tensor, given: int, gotten: int, group: dist.ProcessGroup) -> Tensor:
    """Gives each rank a part of dimension `given`, and puts together what they give along dimension `gotten`."""
    came = all_to_all(torch.stack(x.chunk(group.size(), given)), group)
    return torch.cat(came.unbind(), gotten)


def apply(model: nn.Module, plan: TrainingPlan, mesh: TrainingMesh) -> nn.Module:
    """Replaces each Attention's core by ring or Ulysses attention over the context parallel group."""
    attention = ring_attention if is_ring(plan) else ulysses
    for module in model.modules():
        if isinstance(module, Attention):
            module.core = partial(attention, group=mesh.group("cp"))
        if isinstance(module, Embedding):
            module.at = torch.tensor(positions(plan, mesh["cp"].get_local_rank()))
    return model
