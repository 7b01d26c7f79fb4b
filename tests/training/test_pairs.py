"""Any two options at once train as one process does, or are refused with the reason: docs/parallelism/products.md shows
which."""

from __future__ import annotations

import pytest

from ringtree.training import Plan
from tests.torch_backend.conftest import Worlds
from tests.training.pairs import PAIRS, refusal
from tests.training.trained import hold_to_one_process, hold_to_the_formula, train

TRAINED = {plan: f"{a}, {b}" for (a, b), plan in reversed(PAIRS.items()) if refusal(plan) is None}
"""Plans once each: a pair may ask for no more than one of its two does."""


@pytest.mark.slow
@pytest.mark.parametrize("plan", [pytest.param(plan, id=name) for plan, name in reversed(TRAINED.items())])
def test_a_pair_trains_as_one_process(worlds: Worlds, plan: Plan) -> None:
    said = worlds(plan.layout.ranks).run(train, plan)
    hold_to_one_process(plan, said)
    hold_to_the_formula(plan, said)
