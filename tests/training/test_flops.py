"""The predicted operations of a rank's step are those that torch counts in a training."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ringtree.training import ParallelLayout, Shape, TrainingPlan, TrainingSettings
from ringtree.training.core.flops import flops, model_flops, most_flops
from ringtree.training.core.sizes import parameters
from tests.torch_backend.conftest import Worlds
from tests.training.table import plan
from tests.training.test_sizes import PUBLISHED

NAMES = ["dp2 micro-batches", "pp2 gpipe", "pp2 interleaved", "zero3 dp2", "cp2 ulysses"]
NAMES += ["pp2 interleaved own shape", "cp2 ulysses own shape", "zero0 dp2 tied"]
NAMES += ["dp2 recompute", "cp2 ulysses recompute own shape", "pp2 naive recompute"]


def _counted(its: TrainingPlan) -> tuple[int, int]:
    """A rank's position of "pp", and torch's count of its step."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    from ringtree.training import Trainer

    trainer = Trainer(its)
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:  # a fused kernel is not counted
        trainer.step()
    trainer.close()
    return trainer.at["pp"], counter.get_total_flops()


@pytest.mark.torch
@pytest.mark.parametrize("name", NAMES)
def test_they_are_what_torch_counts(worlds: Worlds, name: str) -> None:
    its = plan(name)
    for position, counted in worlds(its.layout.ranks).run(_counted, its):
        assert flops(its, position) == counted


@pytest.mark.torch
def test_a_ring_of_context_parallel_ranks_leaves_out_blocks_that_are_hidden(worlds: Worlds) -> None:
    """At most the half of all pairs."""
    its = plan("cp2 ring")
    half = 6 * 2 * its.shape.width * its.settings.batch * its.positions * its.shape.context * its.shape.layers
    for _, counted in worlds(2).run(_counted, its):
        assert flops(its, 0) - half <= counted < flops(its, 0)


@pytest.mark.parametrize("tp", [2, 4])
@pytest.mark.parametrize("tied", [False, True])
def test_tensor_parallel_ranks_share_all(tp: int, tied: bool) -> None:
    """By the formula alone: of DTensors torch counts each product twice."""
    one = TrainingPlan(shape=Shape(tied=tied))
    assert tp * flops(replace(one, layout=ParallelLayout(tp=tp)), 0) == flops(one, 0)


def test_a_large_model_takes_six_operations_a_parameter_and_token() -> None:
    """The rule of thumb, where positions are few beside the width."""
    its = TrainingPlan(shape=Shape(width=4096, layers=32, heads=32), settings=TrainingSettings(batch=8))
    assert most_flops(its) / (6 * parameters(its) * 8 * its.shape.context) == pytest.approx(1, rel=0.01)


def test_llama_takes_those_of_its_matrices() -> None:
    """Llama 3 70B by hand, for a token: its matrices of a block, the scores, and two products with all positions."""
    its = TrainingPlan(shape=PUBLISHED["Llama 3 70B"][0], settings=TrainingSettings(batch=1))
    block = 2 * 8192 * 8192 + 2 * 1024 * 8192 + 3 * 28672 * 8192
    assert model_flops(its) == 8192 * (6 * (80 * block + 128256 * 8192) + 12 * 80 * 8192 * 8192)


def test_tokens_go_through_as_many_experts_as_they_choose() -> None:
    """Beside one expert's products a token has the router's."""
    layout, settings = ParallelLayout(ep=2), TrainingSettings(batch=16)
    one, two = (TrainingPlan(layout, Shape(experts=4, top_k=k), settings) for k in (1, 2))
    shape, tokens = one.shape, 8 * one.shape.context
    assert most_flops(two) - most_flops(one) == 6 * tokens * shape.layers * 8 * shape.width**2
    dense = TrainingPlan(layout, Shape(), settings)
    assert most_flops(one) - most_flops(dense) == 6 * tokens * shape.layers * 4 * shape.width
