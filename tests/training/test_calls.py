"""The recorded calls of a step: names, ranks, bytes, and the phase of each."""

from __future__ import annotations

from typing import Any

from tests.torch_backend.conftest import Worlds
from tests.training.table import plan


def _called(name: str) -> list[list[Any]]:
    from ringtree.training import Trainer
    from ringtree.training.measure.calls import called

    trainer = Trainer(plan(name))
    trainer.step()
    return called(trainer.step)


def test_a_steps_calls(worlds: Worlds) -> None:
    from ringtree.training.core.sizes import parameters_nbytes

    for calls in worlds(4).run(_called, "dp4"):
        assert [len(mine) for mine in calls] == [3, 3, 3, 3]  # DDP rebuilds its buckets after the first step
        (reduced,) = (call for call in calls[0] if call.name == "all_reduce")
        assert reduced.ranks == (0, 1, 2, 3) and reduced.phase == "backward"
        assert reduced.nbytes == parameters_nbytes(plan("dp4"))
        assert all(call.key == calls[0][k].key for mine in calls for k, call in enumerate(mine))
