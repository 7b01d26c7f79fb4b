"""Floating-point operations of a rank's step: those of its matrix products. Needs no torch.

A product of a matrix and a vector takes two operations an element, and the backward pass makes two products for each of
the forward pass. Attention counts every pair of positions, also those that the causal mask hides. Published rates of
training are of the same count (Narayanan et al., SC 2021, section 5.1). Blocks that are computed again take a forward
pass more, which is no work of the model.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from ringtree.training.core.layout import ParallelLayout
from ringtree.training.core.placement import layer_count, layers, shapes_at
from ringtree.training.core.plan import TrainingPlan
from ringtree.training.core.sizes import EXPERTS

PASSES = 3
"""Forward passes that a step's products count for: one, and two of the backward pass."""


def most_flops(plan: TrainingPlan) -> int:
    """The floating-point operations in a step of the rank that has the most of them."""
    return max(flops(plan, position) for position in range(plan.layout.pp))


def model_flops(plan: TrainingPlan) -> int:
    """The floating-point operations in a step of the model, each counted once: of one rank that does all of them."""
    return flops(replace(plan, layout=ParallelLayout()), 0)


def flops(plan: TrainingPlan, position: int) -> int:
    """The floating-point operations in a step of a rank at a position of "pp", where tokens choose experts evenly and
    none is dropped."""
    blocks, scores = _forward_flops(plan, position)
    return (PASSES + plan.layout.forwards - 1) * blocks + PASSES * scores


def stage_flops(plan: TrainingPlan) -> list[tuple[int, int]]:
    """The floating-point operations in a step of a rank of each stage of a pipeline, in its forward passes and in its
    backward passes; without a pipeline of its one stage."""
    found = dict[int, tuple[int, int]]()
    for position in range(plan.layout.pp):
        blocks, scores = _forward_flops(plan, position)
        parts = layers(plan, position)
        for chunk, part in enumerate(parts):
            its = blocks * len(part) // sum(map(len, parts)), scores * (chunk == len(parts) - 1)
            backward = (PASSES + plan.layout.forwards - 2) * its[0] + (PASSES - 1) * its[1]
            found[position + chunk * plan.layout.pp] = sum(its), backward
    return [flops for _, flops in sorted(found.items())]


def forward_share(plan: TrainingPlan) -> float:
    """The share of a step's operations that its forward passes have, of the rank that has the most."""
    most = max(range(plan.layout.pp), key=lambda position: flops(plan, position))
    return sum(_forward_flops(plan, most)) / flops(plan, most)


def _forward_flops(plan: TrainingPlan, position: int) -> tuple[int, int]:
    """The operations of a step's forward passes in the blocks of such a rank, and in its scores."""
    shape, layout = plan.shape, plan.layout
    tokens = layout.micro_batches * plan.rows * plan.positions
    in_blocks = behind = 0
    for name, size in shapes_at(plan, position):
        each, shares = (size[1:], shape.top_k) if EXPERTS in name else (size, 1)
        if len(each) == 2 and name.startswith("blocks."):
            in_blocks += shares * prod(each)
        elif len(each) == 2 and not name.startswith("embedding."):  # embeddings are looked up
            behind += prod(each)
    if shape.tied and position == layout.pp - 1:
        behind += shape.vocabulary // layout.tp * shape.width  # the scores' product, by the embedding's matrix
    pairs = 2 * layer_count(plan, position) * shape.context * (shape.query_width // layout.tp)
    return 2 * tokens * (in_blocks + pairs), 2 * tokens * behind
