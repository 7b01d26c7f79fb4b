"""A rank's model has the parts that the plan assigns to the rank."""

from __future__ import annotations

import pytest

from tests.torch_backend.conftest import Worlds
from tests.training.table import plan


def _held(name: str) -> tuple[int, int]:
    from torch.distributed.tensor import DTensor

    from ringtree.training import Trainer
    from ringtree.training.core.stages import named

    trainer = Trainer(plan(name))
    mine = named(trainer.model).values()
    return trainer.at["pp"], sum((p.to_local() if isinstance(p, DTensor) else p).numel() for p in mine)


NAMES = ["dp2", "tp2", "pp2 gpipe", "pp2 interleaved", "zero2 dp2", "zero3 dp2", "ep2"]
NAMES += ["tp2 own shape", "zero3 dp2 ep2 own shape", "zero3 dp2 tied"]


@pytest.mark.parametrize("name", NAMES)
def test_parameters_are_those_of_the_model(worlds: Worlds, name: str) -> None:
    from ringtree.training.core.placement import most_parameters

    for position, count in worlds(plan(name).layout.ranks).run(_held, name):
        assert count == most_parameters(plan(name), position)
