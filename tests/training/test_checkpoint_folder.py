"""A folder of checkpoints has one at every moment, whenever its job ends."""

from __future__ import annotations

import multiprocessing
from pathlib import Path
from typing import Any

import pytest

from ringtree.training import ParallelLayout
from tests.torch_backend.conftest import Worlds
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


def _clear(folder: Path) -> None:
    from ringtree.training.core.checkpoint_folder import begin

    while True:
        begin(folder / ".step-00000009.unfinished")


def test_another_training_that_removes_what_is_written_is_named(tmp_path: Path) -> None:
    other = multiprocessing.get_context("fork").Process(target=_clear, args=(tmp_path,))
    other.start()
    try:
        with pytest.raises(OSError, match=r"unfinished was removed while .* another training .*expected a folder for"):
            for _ in range(TIMES):
                _write(plan_of(ParallelLayout()), tmp_path)
    finally:
        other.kill()
        other.join()
        other.close()


def _claim(folder: Path, pipe: Any) -> None:
    from ringtree.training.core.checkpoint import claimed

    with claimed(folder):
        pipe.send(True)
        pipe.recv()


def test_a_folder_is_one_trainings_until_it_ends(tmp_path: Path) -> None:
    from ringtree.training.core.checkpoint import claimed

    fork, folder = multiprocessing.get_context("fork"), tmp_path / "new"
    here, there = fork.Pipe()
    other = fork.Process(target=_claim, args=(folder, there))
    other.start()
    try:
        assert here.recv()
        with (
            pytest.raises(ValueError, match=f"{folder}: another training writes its checkpoints there"),
            claimed(folder),
        ):
            pass
    finally:
        other.kill()
        other.join()
        other.close()
    for _ in range(2):
        with claimed(folder), claimed(None):
            pass
    here.close()
    there.close()


def _enter(folder: Path, of_rank: str) -> None:
    import torch.distributed as dist

    from ringtree.training.core.checkpoint import claimed

    with claimed(folder / of_rank.format(dist.get_rank())):
        pass


def _enter_apart(folder: Path) -> str:
    with pytest.raises(ValueError, match="expected a folder that all ranks share") as raised:
        _enter(folder, "host{}")
    return str(raised.value)


def test_ranks_on_disks_of_their_own_do_not_begin(worlds: Worlds, tmp_path: Path) -> None:
    (tmp_path / "host2").mkdir()
    texts = worlds(3).run(_enter_apart, tmp_path)
    assert texts[0].startswith(f"the checkpoints' folder {tmp_path}/host1 of rank 1, on ") and len({*texts}) == 1
    worlds(3).run(_enter, tmp_path, "shared")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["host0", "host2", "shared"]
