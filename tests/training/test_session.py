"""A run of training: what it measures is what happened."""

from __future__ import annotations

from typing import Any

import pytest

from tests.torch_backend.conftest import Worlds
from tests.training.table import plan


def _run(name: str) -> tuple[dict[str, Any], list[tuple[int, float, float]], float]:
    from ringtree.training import Trainer
    from ringtree.training.session import Session

    told: list[tuple[int, float, float]] = []
    measured = Session(Trainer(plan(name)), lambda *step: told.append(step)).run()
    return measured.record(), told, measured.trace.makespan_s


@pytest.mark.parametrize("name", ["dp2", "tp2", "zero3 dp2"])
def test_its_record_is_of_all_ranks_and_equals_the_formula(worlds: Worlds, name: str) -> None:
    expected = plan(name)
    ranks = worlds(expected.layout.ranks).run(_run, name)
    record, told, _ = ranks[0]
    steps = expected.settings.steps
    assert [step["step"] for step in record["steps"]] == [step for step, _, _ in told] == [*range(1, steps + 1)]
    assert record["counted_nbytes"] == record["formula_nbytes"] > 0
    assert {row["counted_nbytes"] == row["formula_nbytes"] for row in record["sent"]} == {True}
    assert [share["collective"] for share in record["shares"]]
    assert sum(share["work_s"] + share["wait_s"] for share in record["shares"]) > 0
    assert [r["steps"][-1]["loss"] for r, _, _ in ranks] == [pytest.approx(told[-1][1])] * len(ranks)
