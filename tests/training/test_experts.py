"""A layer of experts in one process: the kept choices, the result, and that the loss evens out the load."""

from __future__ import annotations

from collections import Counter
from math import ceil
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ringtree.training import ParallelLayout, Shape, TrainingPlan, TrainingSettings


@st.composite
def routed(draw: st.DrawFn) -> tuple[int, int, int, int, int]:
    """Tokens, experts, top_k, an expert's capacity, a seed."""
    experts = draw(st.integers(1, 9))
    tokens, top_k = draw(st.integers(1, 40)), draw(st.integers(1, experts))
    return tokens, experts, top_k, draw(st.integers(1, tokens + 1)), draw(st.integers(0, 1 << 20))


def _kept(likelihoods: Any, top_k: int, most: int) -> list[tuple[int, int]]:
    """(expert, token) by the rule: all first choices by position, then all second ones."""
    tokens, experts = likelihoods.shape
    ranked = [sorted(range(experts), key=lambda e, t=t: -float(likelihoods[t, e])) for t in range(tokens)]
    taken: Counter[int] = Counter()
    kept = []
    for choice in range(top_k):
        for token in range(tokens):
            expert = ranked[token][choice]
            if taken[expert] < most:
                taken[expert] += 1
                kept.append((expert, token))
    return kept


@given(routed())
@settings(max_examples=100, deadline=None)
def test_a_token_goes_to_its_choices_or_is_dropped_by_the_rule(case: tuple[int, int, int, int, int]) -> None:
    import torch

    from ringtree.training.core.experts import route

    tokens, experts, top_k, most, seed = case
    likelihoods = torch.rand(tokens, experts, generator=torch.Generator().manual_seed(seed)).softmax(-1)
    got = route(likelihoods, top_k, most)
    expected = _kept(likelihoods, top_k, most)
    expert = torch.arange(experts).repeat_interleave(got.kept)
    assert list(zip(expert.tolist(), got.token.tolist(), strict=True)) == sorted(expected, key=lambda kept: kept[0])
    assert int(got.chosen.sum()) == tokens * top_k
    assert got.kept.tolist() == [min(c, most) for c in got.chosen.tolist()]


@pytest.mark.parametrize(("top_k", "capacity_factor"), [(1, 1.0), (2, 0.5), (2, 1.25), (3, 9.0)])
def test_a_layer_is_a_loop_over_its_tokens(top_k: int, capacity_factor: float) -> None:
    import torch
    from torch.nn.functional import gelu

    from ringtree.training.core.experts import MixtureOfExperts

    torch.manual_seed(top_k)
    layer = MixtureOfExperts(Shape(width=8, experts=5, top_k=top_k, capacity_factor=capacity_factor))
    x = torch.randn(3, 6, 8)
    tokens, experts = x.flatten(0, 1), layer.experts
    likelihoods = layer.router(tokens).softmax(-1)
    expected = torch.zeros_like(tokens)
    for expert, token in _kept(likelihoods.detach(), top_k, ceil(capacity_factor * 18 * top_k / 5)):
        gate = likelihoods[token, expert]
        if top_k > 1:
            gate = gate / likelihoods[token].sort(descending=True).values[:top_k].sum()
        up = gelu(tokens[token] @ experts.up[expert] + experts.up_bias[expert])
        expected[token] += gate * (up @ experts.down[expert] + experts.down_bias[expert])
    torch.testing.assert_close(layer(x), expected.view_as(x))


def test_its_loss_is_one_where_all_experts_are_alike_and_their_number_where_one_has_all() -> None:
    import torch

    from ringtree.training.core.experts import imbalance

    even, one = torch.full((12, 4), 0.25), torch.eye(4)[:1].repeat(12, 1)
    assert float(imbalance(even, torch.tensor([6, 6, 6, 6]))) == 1
    assert float(imbalance(one, torch.tensor([12, 0, 0, 0]))) == 4


def test_its_loss_is_minimized_beside_any_other() -> None:
    import torch

    from ringtree.training.core.experts import MixtureOfExperts, imbalance, route

    torch.manual_seed(0)
    layer = MixtureOfExperts(Shape(width=8, experts=4, balance=0.5))
    x = torch.randn(2, 5, 8)
    (0 * layer(x)).sum().backward()
    got, layer.router.weight.grad = layer.router.weight.grad, None
    likelihoods = layer.router(x.flatten(0, 1)).softmax(-1)
    (0.5 * imbalance(likelihoods, route(likelihoods, 2, 99).chosen)).backward()
    torch.testing.assert_close(got, layer.router.weight.grad)


def test_the_load_is_more_even_with_its_loss_than_without() -> None:
    """One run, the same text and weights: the busiest expert's share of the choices, and what is dropped."""
    import torch

    from ringtree.training import Trainer
    from ringtree.training.core.experts import load_of

    def shares(balance: float) -> tuple[float, float]:
        shape = Shape(width=16, layers=2, context=32, experts=8, balance=balance)
        trainer = Trainer(TrainingPlan(ParallelLayout(), shape, TrainingSettings(batch=8, rate=1e-2)))
        for _ in range(25):
            before = load_of(trainer.model)
            trainer.step()
        step = load_of(trainer.model) - before
        assert torch.all(step.kept <= step.forwards * ceil(1.25 * 8 * 32 * 2 / 8))
        return float(step.chosen.max() / step.chosen.sum()), step.dropped

    (busiest, dropped), (without, dropped_without) = shares(0.1), shares(0.0)
    assert busiest < 0.8 * without
    assert dropped < 0.5 * dropped_without
