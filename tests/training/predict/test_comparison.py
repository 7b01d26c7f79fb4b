"""Layouts beside one another: every one that there is, each with the times that it has alone."""

from __future__ import annotations

from itertools import product
from math import prod

import pytest

from ringtree.machines.clusters import Cluster
from ringtree.machines.files.reading import find
from ringtree.topology.fabrics import FABRICS
from ringtree.training import ParallelLayout, Shape, TrainingPlan, TrainingSettings
from ringtree.training.predict.comparison import compared, sizes
from ringtree.training.predict.step_times import StepPricing

AXES = ("pp", "dp", "tp")
FOUR = Cluster(find("dgx-h100"), 4, FABRICS["infiniband"])


@pytest.mark.parametrize("ranks", [1, 7, 12, 64])
@pytest.mark.parametrize("given", [{}, {"tp": 2}, {"cp": 2, "ep": 1}, {"pp": 2, "tp": 2}, {"pp": 1, "dp": 4, "tp": 3}])
def test_every_layout_is_named_once(ranks: int, given: dict[str, int]) -> None:
    others = prod(size for axis, size in given.items() if axis not in AXES)
    choices = [[given[axis]] if axis in given else range(1, ranks + 1) for axis in AXES]
    expected = {sizes for sizes in product(*choices) if prod(sizes) * others == ranks}
    found = list(sizes(ranks, given))
    assert {tuple(each[axis] for axis in AXES) for each in found} == expected and len(found) == len(expected)
    assert all(each | given == each for each in found)


def test_a_layout_has_the_times_that_it_has_alone() -> None:
    shape, settings = Shape(width=1024, layers=8, heads=16, context=512), TrainingSettings(batch=64)
    layouts = [
        ParallelLayout(pp=pp, dp=32 // tp // pp, tp=tp, micro_batches=pp) for pp, tp in product((1, 2, 4), (1, 4, 8))
    ]
    plans = [TrainingPlan(layout, shape, settings) for layout in layouts]
    for plan, one in zip(plans, compared(plans, FOUR), strict=True):
        alone = StepPricing(plan, FOUR).times
        assert one.plan is plan and one.times == alone and not one.why
        assert sum(one.by_axis_s().values()) == pytest.approx(alone.seconds())


def test_a_layout_whose_calls_have_no_price_has_a_reason() -> None:
    plan = TrainingPlan(ParallelLayout(tp=3, dp=8), Shape(heads=3), TrainingSettings())
    (one,) = compared([plan], Cluster(find("dgx-h100"), 3, FABRICS["infiniband"]))
    assert "NCCL's model has" in one.why and not one.by_axis_s()
