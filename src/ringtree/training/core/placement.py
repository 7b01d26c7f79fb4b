"""The layers and the number of parameters of each rank of a plan. Needs no torch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from math import prod

from ringtree.training.core.plan import TrainingPlan, TrainingSettings
from ringtree.training.core.sizes import held, largest_shard, own_part
from ringtree.training.strategies.layers import pipeline


def layers(plan: TrainingPlan, position: int) -> list[range]:
    """The layers of each stage of a pipeline that the ranks at a position of "pp" have; without a pipeline all layers
    are one stage, whatever the schedule of one would be."""
    if plan.layout.pp == 1:
        return [range(plan.shape.layers)]
    return [pipeline.layers(plan, stage) for stage in range(position, pipeline.stages(plan), plan.layout.pp)]


def layer_count(plan: TrainingPlan, position: int) -> int:
    """The number of layers that the ranks at a position of "pp" have."""
    return sum(map(len, layers(plan, position)))


def most_parameters(plan: TrainingPlan, position: int) -> int:
    """The parameters of a rank at a position of "pp" between two steps; the most, where they do not divide evenly."""
    its = shapes_at(plan, position)
    if plan.layout.zero >= 2:
        return sum(largest_shard(plan, name, size) for name, size in its)
    return sum(prod(own_part(plan, name, size)) for name, size in its)


def shapes_at(plan: TrainingPlan, position: int) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """(name, shape) of each parameter of the ranks at a position of "pp", in the model's order: of one that tensor
    parallel ranks divide, a rank's part; of a stack of experts, the whole stack."""
    layout = replace(plan.layout, micro_batches=plan.layout.pp)  # whose number changes nothing here
    return _shapes_at(replace(plan, layout=layout, settings=TrainingSettings()), position)


@lru_cache(1024)
def _shapes_at(plan: TrainingPlan, position: int) -> tuple[tuple[str, tuple[int, ...]], ...]:
    return tuple(_each_at(plan, position))


def _each_at(plan: TrainingPlan, position: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    mine = {str(layer) for part in layers(plan, position) for layer in part}
    for name, its in held(plan).items():
        part, *rest = name.split(".")
        if part == "blocks":
            here = rest[0] in mine
        else:
            here = position == (0 if part == "embedding" else plan.layout.pp - 1)
        if here:
            yield name, its
