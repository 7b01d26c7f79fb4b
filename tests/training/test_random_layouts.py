"""Layouts drawn at random are refused before anything starts, or train as one process does, in the bytes of their
formula."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from ringtree.training import ParallelLayout, Shape, TrainingPlan, TrainingSettings
from ringtree.training.core.layout import CONTEXTS, SCHEDULES, SERVERS
from tests.torch_backend.conftest import Worlds
from tests.training.pairs import refusal
from tests.training.trained import PATIENCE_S, hold_to_one_process, hold_to_the_calls, hold_to_the_formula, train

MOST_RANKS = 8
SIZES = st.sampled_from([1, 1, 1, 2, 2, 4, 3, 8])
LAYOUTS = st.builds(
    ParallelLayout,
    dp=SIZES,
    tp=SIZES,
    pp=SIZES,
    cp=SIZES,
    ep=SIZES,
    sp=st.booleans(),
    zero=st.integers(0, 3),
    schedule=st.sampled_from(SCHEDULES),
    micro_batches=st.sampled_from([1, 2, 3, 4]),
    context=st.sampled_from(CONTEXTS),
    recompute=st.booleans(),
    staleness=st.sampled_from([None, None, None, 0]),
    server=st.sampled_from(SERVERS),
)
SHAPES = st.builds(
    Shape,
    width=st.sampled_from([16, 24]),
    layers=st.integers(1, 4),
    heads=st.sampled_from([2, 4, 8]),
    context=st.sampled_from([12, 16, 32]),
    experts=st.sampled_from([0, 0, 4]),
    head_width=st.sampled_from([None, None, 10]),
    kv_heads=st.sampled_from([None, None, 1, 2]),
    ffn_width=st.sampled_from([None, None, 20]),
    gated=st.booleans(),
    tied=st.sampled_from([False, False, True]),
)
SETTINGS = st.builds(
    TrainingSettings,
    steps=st.just(3),
    batch=st.sampled_from([8, 12]),
    rate=st.just(1e-2),
    optimizer=st.sampled_from(["adamw", "sgd"]),
)
PLANS = st.builds(TrainingPlan, LAYOUTS, SHAPES, SETTINGS).filter(lambda plan: 1 < plan.layout.ranks <= MOST_RANKS)
UNHURRIED = {"deadline": None, "suppress_health_check": [HealthCheck.filter_too_much, HealthCheck.too_slow]}


def _trains(worlds: Worlds, plan: TrainingPlan) -> None:
    results = worlds(plan.layout.ranks).run(train, plan, within_s=PATIENCE_S)
    hold_to_one_process(plan, results)
    hold_to_the_formula(plan, results)
    if plan.layout.staleness is None:
        hold_to_the_calls(plan, results)


@given(PLANS)
@settings(max_examples=300, **UNHURRIED)
def test_a_refusal_has_one_line(plan: TrainingPlan) -> None:
    reason = refusal(plan)
    assert reason is None or ("\n" not in reason and reason)


@given(PLANS)
@settings(max_examples=3, derandomize=True, **UNHURRIED)
def test_a_few_train_as_one_process(worlds: Worlds, plan: TrainingPlan) -> None:
    assume(refusal(plan) is None and plan.layout.ranks <= 4)
    _trains(worlds, plan)


@pytest.mark.slow
@given(PLANS)
@settings(max_examples=100, **UNHURRIED)
def test_many_train_as_one_process(worlds: Worlds, plan: TrainingPlan) -> None:
    assume(refusal(plan) is None)
    _trains(worlds, plan)
