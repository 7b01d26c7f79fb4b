"""A folder of checkpoints has one at every moment, whenever its job ends."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import pytest

from ringtree.training import ParallelLayout
from tests.training.test_checkpoint import _go_on, _write, plan_of

TIMES = 300


@pytest.fixture
def made(tmp_path: Path) -> Path:
    return _write(plan_of(ParallelLayout()), tmp_path)


def _replace(made: Path) -> None:
    from ringtree.training.core.checkpoint_folder import begin, beside, take_name

    for _ in range(TIMES):
        begin(beside(made))
        take_name(beside(made), made)


def test_a_checkpoint_is_replaced_in_one_step(tmp_path: Path) -> None:
    """Two renames leave a moment between them without any."""
    from ringtree.training.core.checkpoint_folder import _exchanged

    folders = [tmp_path / name for name in ("one", "step-00000002")]
    for folder in folders:
        folder.mkdir()
    if not _exchanged(*folders):
        pytest.skip("this file system exchanges no names")
    process = multiprocessing.get_context("fork").Process(target=_replace, args=(folders[1],))
    process.start()
    missed = 0
    while process.is_alive():
        missed += not folders[1].exists()
    process.join()
    process.close()
    assert missed == 0


def test_a_job_that_ends_between_two_renames_leaves_the_one_that_was_there(made: Path, tmp_path: Path) -> None:
    from ringtree.training.core.checkpoint import latest

    left = made.rename(tmp_path / f".{made.name}.replaced")
    (tmp_path / f".{made.name}.unfinished").mkdir()
    assert latest(tmp_path) == left
    _go_on(plan_of(ParallelLayout()), tmp_path)
    assert _write(plan_of(ParallelLayout()), tmp_path) == made == latest(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == [made.name]


def test_one_that_is_about_to_be_replaced_has_its_name_back_before_another_is_written(
    made: Path, tmp_path: Path
) -> None:
    from ringtree.training.core.checkpoint_folder import begin, latest

    left = made.rename(tmp_path / f".{made.name}.replaced")
    begin(tmp_path / ".step-00000009.unfinished")
    assert made.is_dir() and not left.exists()
    made.rename(left)
    (left / "training.json").unlink()  # as far as its removal came
    assert latest(tmp_path) is None


def test_a_file_is_no_checkpoint(made: Path, tmp_path: Path) -> None:
    from ringtree.training.core.checkpoint import latest

    (tmp_path / "step-99999999").write_text("")
    assert latest(tmp_path) == made
