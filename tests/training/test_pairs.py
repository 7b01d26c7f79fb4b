"""Any two options at once train as one process does, or are refused with the reason: docs/parallelism/products.md shows
which."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ringtree.training import TrainingPlan
from tests.torch_backend.conftest import Worlds
from tests.training.pairs import PAIRS, matrix, refusal
from tests.training.trained import PATIENCE_S, hold_to_one_process, hold_to_the_calls, hold_to_the_formula, train

TRAINED = {plan: f"{a}, {b}" for (a, b), plan in reversed(PAIRS.items()) if refusal(plan) is None}
"""Plans once each: a pair may ask for no more than one of its two does."""


PAGE = Path(__file__).parents[2] / "docs" / "parallelism" / "products.md"
MATRIX = re.compile(r"(<!-- written from tests/training/pairs\.py -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def test_the_page_of_products_lists_the_combinations(request: pytest.FixtureRequest) -> None:
    text = PAGE.read_text(encoding="utf-8")
    if request.config.getoption("--update-golden"):
        text = MATRIX.sub(lambda m: m[1] + matrix() + m[3], text)
        PAGE.write_text(text, encoding="utf-8")
    found = MATRIX.search(text)
    assert found is not None and found[2] == matrix(), "pytest tests/training/test_pairs.py --update-golden writes it"


@pytest.mark.slow
@pytest.mark.parametrize("plan", [pytest.param(plan, id=name) for plan, name in reversed(TRAINED.items())])
def test_a_pair_trains_as_one_process(worlds: Worlds, plan: TrainingPlan) -> None:
    results = worlds(plan.layout.ranks).run(train, plan, within_s=PATIENCE_S)
    hold_to_one_process(plan, results)
    hold_to_the_formula(plan, results)
    if plan.layout.staleness is None:
        hold_to_the_calls(plan, results)
