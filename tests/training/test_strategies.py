"""Every layout comes to what one process comes to, and without communication to something else; and its bytes are
those of its formula."""

from __future__ import annotations

import pytest

from tests.torch_backend.conftest import Worlds
from tests.training.table import LAYOUTS, plan
from tests.training.trained import (
    PATIENCE_S,
    UNLIKE,
    Said,
    alone,
    apart,
    hold_to_one_process,
    hold_to_the_formula,
    train,
)

_said: dict[str, list[Said]] = {}


@pytest.fixture(scope="module", params=LAYOUTS)
def name(request: pytest.FixtureRequest) -> str:
    """Of a layout, all of whose tests come one after another."""
    given: str = request.param
    return given


def _trained(worlds: Worlds, name: str) -> list[Said]:
    """What every rank says of a layout, which trains once for all tests of it."""
    if name not in _said:
        _said[name] = worlds(plan(name).layout.ranks).run(train, plan(name), within_s=PATIENCE_S)
    return _said[name]


def test_as_one_process(worlds: Worlds, name: str) -> None:
    hold_to_one_process(plan(name), _trained(worlds, name))


def test_without_communication_it_is_noticed(worlds: Worlds, name: str) -> None:
    _, expected = alone(plan(name))
    said = worlds(plan(name).layout.ranks).run(train, plan(name), True, within_s=PATIENCE_S)
    assert any(not apart(weights, expected) < UNLIKE for _, weights, *_ in said)


def test_bytes_are_those_of_the_formula(worlds: Worlds, name: str) -> None:
    hold_to_the_formula(plan(name), _trained(worlds, name))
