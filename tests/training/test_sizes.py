"""Sizes of a model computed without torch are those of the model."""

from __future__ import annotations

import pytest

from ringtree.training import Shape, TrainingPlan
from ringtree.training.core.sizes import parameters, shapes

SHAPES = [
    Shape(),
    Shape(width=12, layers=1, heads=3, context=7),
    Shape(width=16, layers=3, heads=4, context=8),
    Shape(width=16, layers=2, experts=3),
]


@pytest.mark.parametrize("shape", SHAPES)
def test_shapes_are_the_models(shape: Shape) -> None:
    from ringtree.training.core.language_model import language_model

    model = language_model(shape, 0)
    assert list(shapes(shape).items()) == [(name, tuple(value.shape)) for name, value in model.named_parameters()]
    assert parameters(TrainingPlan(shape=shape)) == sum(value.numel() for value in model.parameters())
