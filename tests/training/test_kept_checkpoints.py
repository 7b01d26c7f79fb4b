"""Of a folder's checkpoints the last ones stay, and nothing that is not one goes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from ringtree.training import ParallelLayout, TrainingPlan
from tests.torch_backend.conftest import Worlds
from tests.training.test_checkpoint import _write, plan_of


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of one process, after 2 steps."""
    return _write(plan_of(ParallelLayout()), tmp_path_factory.mktemp("written"))


def _of_steps(written: Path, folder: Path, steps: int) -> Path:
    """A checkpoint of another number of steps, by a copy."""
    made = Path(shutil.copytree(written, folder / f"step-{steps:08}"))
    facts = json.loads((made / "training.json").read_text())
    (made / "training.json").write_text(json.dumps(facts | {"steps": steps}))
    return made


def _train(plan: TrainingPlan, folder: Path, keep: int | None) -> list[list[str]]:
    """On a rank, or here: a checkpoint after each of three steps. The folder's names after each."""
    from ringtree.training import Trainer
    from ringtree.training.core.checkpoint import save

    trainer, names = Trainer(plan), []
    for _ in range(3):
        trainer.step()
        save(trainer, folder, keep)
        names.append(sorted(file.name for file in folder.iterdir()))
    trainer.close()
    return names


@pytest.mark.parametrize(("keep", "steps"), [(1, [[1], [2], [3]]), (2, [[1], [1, 2], [2, 3]]), (3, None), (None, None)])
def test_the_last_ones_stay(keep: int | None, steps: list[list[int]] | None, tmp_path: Path) -> None:
    names = [[f"step-{k:08}" for k in done] for done in steps or [[1], [1, 2], [1, 2, 3]]]
    assert _train(plan_of(ParallelLayout()), tmp_path, keep) == names


def test_one_rank_removes_them(worlds: Worlds, tmp_path: Path) -> None:
    for names in worlds(2).run(_train, plan_of(ParallelLayout(dp=2)), tmp_path, 1):
        assert names[-1] == ["step-00000003"]


def test_what_is_none_stays_and_does_not_count(written: Path, tmp_path: Path) -> None:
    """Below the two that stay: one with a file of the user's, one without training.json, one of another number, a link,
    and a file; and one of more steps."""
    from ringtree.training.core.checkpoint import _is_whole
    from ringtree.training.core.checkpoint_folder import remove_earlier

    folder = tmp_path / "checkpoints"
    gone, kept, made, above = (_of_steps(written, folder, k) for k in (1, 8, 9, 11))
    (_of_steps(written, folder, 2) / "notes.txt").write_text("the best so far")
    (_of_steps(written, folder, 3) / "training.json").unlink()
    _of_steps(written, folder, 4).rename(folder / "step-00000005")
    elsewhere = _of_steps(written, tmp_path, 6)
    (folder / elsewhere.name).symlink_to(elsewhere)
    (folder / "step-00000007").write_text("")
    before = {file.name for file in folder.iterdir()}
    remove_earlier(made, 2, _is_whole)
    assert before - {file.name for file in folder.iterdir()} == {gone.name}
    assert _is_whole(kept) and _is_whole(above) and _is_whole(elsewhere)


def test_one_that_cannot_be_removed_stays_whole(written: Path, tmp_path: Path) -> None:
    """Its name goes first, so that of a job that ends meanwhile nothing is left that is taken for one."""
    from ringtree.training.core.checkpoint import _is_whole
    from ringtree.training.core.checkpoint_folder import beside, latest, remove_earlier

    first, made = (_of_steps(written, tmp_path, k) for k in (1, 2))
    beside(first).mkdir()
    (beside(first) / "of another job").write_text("")  # so that it cannot get that name
    remove_earlier(made, 1, _is_whole)
    assert _is_whole(first) and latest(tmp_path) == made
