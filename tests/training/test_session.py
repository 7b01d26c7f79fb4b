"""A run of training: its record is that of the steps."""

from __future__ import annotations

import time
from typing import Any

import pytest

from ringtree.training import ParallelLayout, TrainingPlan, TrainingSettings
from tests.torch_backend.conftest import Worlds
from tests.training.table import SMALL, plan


def _run(name: str) -> tuple[dict[str, Any], list[tuple[int, float, float]], str]:
    from ringtree.training import Trainer
    from ringtree.training.session import Session

    reported: list[tuple[int, float, float]] = []
    measured = Session(Trainer(plan(name)), lambda *step: reported.append(step)).run()
    return measured.record(), reported, measured.picture


@pytest.mark.parametrize("name", ["dp2", "tp2", "zero3 dp2"])
def test_its_record_is_of_all_ranks_and_equals_the_formula(worlds: Worlds, name: str) -> None:
    expected = plan(name)
    ranks = worlds(expected.layout.ranks).run(_run, name)
    record, reported, picture = ranks[0]
    steps = expected.settings.steps
    assert [step["step"] for step in record["steps"]] == [step for step, _, _ in reported] == [*range(1, steps + 1)]
    assert record["counted_nbytes"] == record["formula_nbytes"] > 0
    assert {row["counted_nbytes"] == row["formula_nbytes"] for row in record["sent"]} == {True}
    assert {row["why"] for row in record["sent"]} == {""}
    assert len(record["held"]) == expected.layout.ranks and all(its["parameters"] > 0 for its in record["held"])
    assert picture.count("<rect") + picture.count("<path") > 0
    assert [share["collective"] for share in record["shares"]]
    assert sum(share["work_s"] + share["wait_s"] for share in record["shares"]) > 0
    assert [r["steps"][-1]["loss"] for r, _, _ in ranks] == [pytest.approx(reported[-1][1])] * len(ranks)


def _record_late(plan: TrainingPlan, rank: int) -> dict[str, Any]:
    """On a rank: what is measured where one of them begins to record, and computes, later than the others."""
    import torch.distributed as dist

    from ringtree.runtime.tracing.tracing import Recording
    from ringtree.training import Trainer
    from ringtree.training.session import Session

    start = Recording.start

    def late(recording: Recording) -> None:
        time.sleep(0.2 * (dist.get_rank() == rank))
        start(recording)

    trainer = Trainer(plan)
    Recording.start = late  # type: ignore[method-assign]
    try:
        return Session(trainer, lambda *step: None).run().record()
    finally:
        Recording.start = start  # type: ignore[method-assign]
        trainer.close()


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("server", ["sharded", "peers"])
def test_an_asynchronous_step_is_traced_whole(worlds: Worlds, server: str, rank: int) -> None:
    """However far apart its ranks are."""
    settings = TrainingSettings(steps=3, batch=4, optimizer="sgd", slow_rank=1, slow_factor=4)
    plan = TrainingPlan(ParallelLayout(dp=2, staleness=1, server=server), SMALL, settings)
    for record in worlds(2).run(_record_late, plan, rank):
        assert [row["counted_nbytes"] for row in record["sent"]] == [row["formula_nbytes"] for row in record["sent"]]
