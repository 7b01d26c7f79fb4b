"""Sizes of a model computed without torch are those of the model."""

from __future__ import annotations

from typing import Any

import pytest

from ringtree.training import Shape, TrainingPlan
from ringtree.training.core.sizes import parameters, shapes

SHAPES = [
    Shape(),
    Shape(width=12, layers=1, heads=3, context=7),
    Shape(width=16, layers=3, heads=4, context=8),
    Shape(width=16, layers=2, experts=3),
    Shape(width=16, layers=2, heads=4, kv_heads=1, ffn_width=20),
    Shape(width=16, layers=2, heads=4, kv_heads=2, ffn_width=20, gated=True, vocabulary=300),
    Shape(width=16, layers=2, heads=3, head_width=10, kv_heads=1),
    Shape(width=16, layers=2, experts=3, gated=True),
    Shape(width=16, layers=2, experts=3, ffn_width=20, tied=True),
]
LLAMA: dict[str, Any] = {"context": 8192, "vocabulary": 128256, "kv_heads": 8, "gated": True}
PUBLISHED = {
    "Llama 3 8B": (Shape(4096, 32, 32, ffn_width=14336, **LLAMA), 8_030_261_248),
    "Llama 3 70B": (Shape(8192, 80, 64, ffn_width=28672, **LLAMA), 70_553_706_496),
    "Llama 2 7B": (Shape(4096, 32, 32, 4096, 32000, ffn_width=11008, gated=True), 6_738_415_616),
    "Qwen3 32B": (
        Shape(5120, 64, 64, 32768, 151936, head_width=128, kv_heads=8, ffn_width=25600, gated=True),
        32.8e9,
    ),
    "GPT-2": (Shape(768, 12, 12, 1024, 50257, tied=True), 124_439_808),
    "GPT-3": (Shape(12288, 96, 96, 2048, 50257, tied=True), 175e9),
    "Mixtral 8x7B": (
        Shape(4096, 32, 32, 4096, 32000, experts=8, kv_heads=8, ffn_width=14336, gated=True),
        46_702_792_704,
    ),
}
"""Shapes of published models, and the parameters that they have. Llama and Mixtral have no learned positions and no
biases, which this model has; GPT has biases of queries, keys and values, and none of the scores."""


@pytest.mark.parametrize("shape", SHAPES)
def test_shapes_are_the_models(shape: Shape) -> None:
    from ringtree.training.core.language_model import language_model

    model = language_model(shape, 0)
    assert list(shapes(shape).items()) == [(name, tuple(value.shape)) for name, value in model.named_parameters()]
    assert parameters(TrainingPlan(shape=shape)) == sum(value.numel() for value in model.parameters())


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_models_have_as_many_parameters(name: str) -> None:
    shape, published = PUBLISHED[name]
    assert parameters(TrainingPlan(shape=shape)) == pytest.approx(published, rel=0.005)
