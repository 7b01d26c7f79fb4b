"""Every layout comes to what one process comes to, and without communication to something else; and its bytes are
those of its formula, and its calls those of its plan."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

import pytest

from ringtree.training.core.layout import AXES
from tests.torch_backend.conftest import Worlds
from tests.training.table import LAYOUTS, QUICK, communication, plan
from tests.training.trained import (
    PATIENCE_S,
    UNLIKE,
    RankResult,
    alone,
    apart,
    hold_to_one_process,
    hold_to_the_calls,
    hold_to_the_formula,
    train,
)

_results: dict[str, list[RankResult]] = {}
FIRST = {communication(layout): name for name, (layout, _) in reversed(LAYOUTS.items())}
"""The first layout of the table by what it communicates."""
ALONG_ONE = {name for name in FIRST.values() if sum(getattr(LAYOUTS[name][0], axis) > 1 for axis in AXES) == 1}
"""Those along one axis: where nothing is communicated at all, a second axis adds nothing to be noticed."""


def marked(quick: Container[str]) -> list[Any]:
    """All names, but for those of `quick` in the long campaign alone."""
    return [pytest.param(name, marks=() if name in quick else pytest.mark.slow) for name in LAYOUTS]


@pytest.fixture(scope="module", params=marked(QUICK))
def name(request: pytest.FixtureRequest) -> str:
    """The name of a layout, all of whose tests come one after another."""
    given: str = request.param
    return given


def _trained(worlds: Worlds, name: str) -> list[RankResult]:
    """Every rank's result of a layout, which trains once for all its tests."""
    if name not in _results:
        _results[name] = worlds(plan(name).layout.ranks).run(train, plan(name), within_s=PATIENCE_S)
    return _results[name]


def test_as_one_process(worlds: Worlds, name: str) -> None:
    hold_to_one_process(plan(name), _trained(worlds, name))


@pytest.mark.parametrize("name", marked(ALONG_ONE))
def test_missing_communication_is_noticed(worlds: Worlds, name: str) -> None:
    _, expected, _ = alone(plan(name))
    world = worlds(plan(name).layout.ranks)
    results = world.run(train, plan(name), True, within_s=PATIENCE_S)
    if plan(name).layout.staleness is not None:
        world.close()  # its ranks keep threads that wait for what was not sent, and fail their group later
    assert any(not apart(weights, expected) < UNLIKE for _, weights, *_ in results)


def test_bytes_are_those_of_the_formula(worlds: Worlds, name: str) -> None:
    hold_to_the_formula(plan(name), _trained(worlds, name))


def test_calls_are_those_of_the_plan(worlds: Worlds, name: str) -> None:
    if plan(name).layout.staleness is None:
        hold_to_the_calls(plan(name), _trained(worlds, name))
