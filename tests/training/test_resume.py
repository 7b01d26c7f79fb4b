"""Which checkpoint all ranks go on from, where each by itself would find another."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ringtree.runtime.communicator.communicator import Communicator
from ringtree.training import Shape, TrainingPlan, TrainingSettings
from tests.runtime.outlived import Ranks, end
from tests.torch_backend.conftest import Worlds

PLAN = TrainingPlan(shape=Shape(width=8, layers=1, heads=2, context=4), settings=TrainingSettings(steps=9, batch=6))


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    """One for each of three ranks: as they see the folder that they share while the last checkpoint comes to it."""
    made = [tmp_path / str(rank) for rank in range(3)]
    for steps, folder in enumerate(made, 3):
        (folder / f"step-{steps:08}").mkdir(parents=True)
    return made


def _found(folders: list[Path]) -> Path | None:
    import torch.distributed as dist

    from ringtree.training.core.checkpoint import latest_of_all

    return latest_of_all(folders[dist.get_rank()])


def test_all_ranks_take_the_checkpoint_that_rank_0_finds(worlds: Worlds, folders: list[Path]) -> None:
    assert worlds(2).run(_found, folders) == [folders[0] / "step-00000003"] * 2


def _resumed(folders: list[Path], first_ends: bool) -> Callable[[Communicator], tuple[list[Path | None], int]]:
    """What a rank's elastic session resumes from, and how many steps it takes after that."""

    def act(comm: Communicator) -> tuple[list[Path | None], int]:
        import torch

        from ringtree.training.core.checkpoint import latest
        from ringtree.training.core.trainer import Trainer
        from ringtree.training.elastic import ElasticSession

        torch.set_num_threads(1)
        trainer, asked = Trainer(PLAN), []
        folder = folders[comm.rank]

        def find() -> Path | None:
            if first_ends and folder == folders[0]:
                end()
            return latest(folder)

        def resume(found: Path | None) -> None:
            asked.append(found)
            assert found is not None
            trainer.steps_done = int(found.name.removeprefix("step-"))

        def ignore(*_: object) -> None: ...

        name = f"rank {comm.rank}"
        session = ElasticSession(trainer, comm, name, lambda: False, ignore, ignore, ignore, latest=find, resume=resume)
        session.run()
        return asked, len(session.losses)

    return act


@pytest.mark.parametrize("first_ends", [False, True], ids=["all live", "the first dies as it looks"])
def test_elastic_ranks_take_the_checkpoint_that_the_first_of_them_finds(folders: list[Path], first_ends: bool) -> None:
    with Ranks(3, _resumed(folders, first_ends)) as ranks:
        results = ranks.reports()
    steps = 4 if first_ends else 3
    assert [*results] == ([1, 2] if first_ends else [0, 1, 2])
    assert all(result == ([folders[steps - 3] / f"step-{steps:08}"], 9 - steps) for result in results.values())
