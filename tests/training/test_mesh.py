"""The groups that training makes beside the default one."""

from __future__ import annotations

import pytest

from ringtree.training import ParallelLayout, Shape, TrainingPlan, TrainingSettings
from tests.torch_backend.conftest import Worlds

TIMEOUT_S = 41.0


def _timeouts_s(layout: ParallelLayout) -> set[float]:
    """On a rank: those of all groups that a trainer makes, where the default one's is TIMEOUT_S."""
    from ringtree.torch_backend import communicator, communicators
    from ringtree.training import Trainer

    was_s, before = communicator().timeout_s, communicators()
    communicator().set_timeout(TIMEOUT_S)
    try:
        trainer = Trainer(TrainingPlan(layout, Shape(width=8, layers=2, heads=2, context=4), TrainingSettings(batch=4)))
        made_s = {c.timeout_s for c in communicators() if c not in before}
        trainer.close()
    finally:
        communicator().set_timeout(was_s)
    return made_s


@pytest.mark.parametrize("layout", [ParallelLayout(dp=2, tp=2), ParallelLayout(dp=4, staleness=1)], ids=str)
def test_a_rank_that_hangs_is_noticed_within_the_default_timeout(worlds: Worlds, layout: ParallelLayout) -> None:
    for timeouts_s in worlds(layout.ranks).run(_timeouts_s, layout):
        assert timeouts_s == {TIMEOUT_S}
