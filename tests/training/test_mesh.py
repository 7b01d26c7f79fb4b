"""The groups that training makes beside the default one."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from ringtree.training import ParallelLayout, Shape, TrainingPlan, TrainingSettings
from tests.torch_backend import faults
from tests.torch_backend.conftest import Worlds

TIMEOUT_S = 41.0
TINY = Shape(width=8, layers=2, heads=2, context=4)


def plan_of(layout: ParallelLayout) -> TrainingPlan:
    return TrainingPlan(layout, TINY, TrainingSettings(batch=12, optimizer="sgd"))


def _timeouts_s(layout: ParallelLayout) -> set[float]:
    """On a rank: those of all groups that a trainer makes, where the default one's is TIMEOUT_S."""
    from ringtree.torch_backend import communicator, communicators
    from ringtree.training import Trainer

    was_s, before = communicator().timeout_s, communicators()
    communicator().set_timeout(TIMEOUT_S)
    try:
        trainer = Trainer(plan_of(layout))
        made_s = {c.timeout_s for c in communicators() if c not in before}
        trainer.close()
    finally:
        communicator().set_timeout(was_s)
    return made_s


@pytest.mark.parametrize("layout", [ParallelLayout(dp=2, tp=2), ParallelLayout(dp=4, staleness=1)], ids=str)
def test_a_rank_that_hangs_is_noticed_within_the_default_timeout(worlds: Worlds, layout: ParallelLayout) -> None:
    for timeouts_s in worlds(layout.ranks).run(_timeouts_s, layout):
        assert timeouts_s == {TIMEOUT_S}


def _groups() -> set[str]:
    """On a rank: the names of torch's groups."""
    import torch.distributed as dist

    return {*dist.distributed_c10d._world.pg_names.values()}


def _left_open(layout: ParallelLayout) -> tuple[int, list[float]]:
    """On a rank: how many groups of two trainers, one after the other, are left; the sums by the caller's own groups
    after that."""
    import torch
    import torch.distributed as dist

    from ringtree.training import Trainer

    own, before = dist.new_group(), _groups()
    for _ in range(2):
        trainer = Trainer(plan_of(layout))
        trainer.step()
        trainer.close()
        trainer.close()
    left = len(_groups()) - len(before)
    sums = []
    for group in (None, own):
        one = torch.ones(1)
        dist.all_reduce(one, group=group)
        sums.append(float(one))
    dist.destroy_process_group(own)
    return left, sums


LAYOUTS = [
    ParallelLayout(dp=2),
    ParallelLayout(dp=2, zero=1),
    ParallelLayout(dp=2, zero=3),
    ParallelLayout(tp=2, sp=True),
    ParallelLayout(pp=2, micro_batches=2),
    ParallelLayout(cp=2),
    ParallelLayout(dp=2, staleness=1),
    ParallelLayout(dp=2, tp=2, zero=2),
]


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_a_closed_trainer_leaves_the_callers_groups_alone(worlds: Worlds, layout: ParallelLayout) -> None:
    ranks = layout.ranks
    assert worlds(ranks).run(_left_open, layout) == [(0, [ranks, ranks])] * ranks


def _closes_after_a_death(rank: int, layout: ParallelLayout) -> None:
    import os

    import torch.distributed as dist

    from ringtree.training import Trainer

    faults.hurry()
    before = _groups()
    trainer = Trainer(plan_of(layout))
    trainer.step()
    if rank == 1:
        os._exit(7)
    try:
        while True:
            trainer.step()
    except dist.DistBackendError:
        for _ in range(2):
            with suppress(dist.DistBackendError):
                trainer.close()
        assert _groups() == before
        raise


@pytest.mark.parametrize("layout", [ParallelLayout(dp=3), ParallelLayout(dp=3, staleness=1)], ids=str)
def test_groups_are_closed_after_a_failure_too(tmp_path: Path, layout: ParallelLayout) -> None:
    stories, codes = faults.run(3, tmp_path, _closes_after_a_death, layout)
    assert codes[1] == 7 and sorted(stories) == [0, 2]
    assert all("rank 1 died" in story.text for story in stories.values())
