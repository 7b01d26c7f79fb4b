"""The bubble: what ranks of a pipeline wait, measured beside the formula; and what they hold meanwhile."""

from __future__ import annotations

import pytest

from ringtree.ir.bubble import bubble
from ringtree.training import Layout
from ringtree.training.pipeline_order import bubble as formula
from ringtree.training.pipeline_order import ideal
from tests.torch_backend.conftest import Worlds

FORWARD_S, BACKWARD_S = 0.01, 0.02
TOLERANCE = 0.1
"""Of the bubble, as a share of what is computed: sleeps end late, and messages take time."""
MOST_STEPS = 10
"""Whatever else the machine does makes a bubble larger: the smallest of so many steps counts."""

LAYOUTS = [
    Layout(pp=p, schedule=schedule, micro_batches=m)
    for schedule in ("gpipe", "1f1b", "interleaved")
    for p, m in ((2, 4), (4, 4), (4, 8), (4, 16), (8, 8))
]


def _name(layout: Layout) -> str:
    return f"{layout.schedule} pp{layout.pp} m{layout.micro_batches}"


def _sleep(layout: Layout) -> tuple[float, int]:
    """On a rank: the smallest bubble of some steps, and of how many micro-batches it held activations at most."""
    from tests.training.sleeping import Pipeline

    pipeline, smallest = Pipeline(layout, FORWARD_S, BACKWARD_S), float("inf")
    pipeline.step()
    for _ in range(MOST_STEPS):
        smallest = min(smallest, bubble(pipeline.step()))
        if smallest < formula(layout) + TOLERANCE:
            break
    return smallest, pipeline.held


@pytest.mark.parametrize("layout", [*LAYOUTS, Layout(pp=4, schedule="naive")], ids=_name)
def test_the_schedules_as_they_are_meant_come_to_the_formula(layout: Layout) -> None:
    assert bubble(ideal(layout)) == pytest.approx(formula(layout))


@pytest.mark.parametrize("layout", LAYOUTS, ids=_name)
def test_the_measured_bubble_is_that_of_the_formula(worlds: Worlds, layout: Layout) -> None:
    said = worlds(layout.pp).run(_sleep, layout)
    assert said[0][0] == pytest.approx(formula(layout), abs=TOLERANCE)


def _held(worlds: Worlds, schedule: str) -> list[int]:
    return [held for _, held in worlds(4).run(_sleep, Layout(pp=4, schedule=schedule, micro_batches=8))]


def test_1f1b_holds_fewer_activations_than_gpipe(worlds: Worlds) -> None:
    assert _held(worlds, "gpipe") == [8, 8, 8, 8]
    assert _held(worlds, "1f1b") == [4, 3, 2, 1]
