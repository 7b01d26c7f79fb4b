"""A rank that is killed stops the job, which names it; and a restart resumed from the last checkpoint."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ringtree.cli import main
from ringtree.training import Shape, TrainingPlan, TrainingSettings

STEPS = 20
TRAIN = ("train", "--width", "16", "--layers", "2", "--sequence", "8", "--batch", "4", "--steps", str(STEPS))
RINGTREE = (sys.executable, "-m", "ringtree.cli")
TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--max-restarts", "1", "-m")


def _start(words: tuple[str, ...], folder: Path, *more: str) -> subprocess.Popen[str]:
    command = [*words, *TRAIN, "--checkpoint", str(folder), "--every", "1", *more]
    environment = {**os.environ, "TORCH_FR_DUMP_TEMP_FILE": str(folder.parent / "dump-")}
    return subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )


def _kept(folder: Path) -> int:
    from ringtree.training.core.checkpoint import latest

    found = latest(folder)
    return int(found.name.split("-")[1]) if found else 0


def _descendants(pid: int) -> list[int]:
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        children = [int(word) for task in tasks for word in (task / "children").read_text().split()]
    except OSError:
        return []
    return [each for child in children for each in (child, *_descendants(child))]


def _rank_of(pid: int) -> str | None:
    try:
        words = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return None
    environment = dict(word.split(b"=", 1) for word in words if b"=" in word)
    rank = environment.get(b"RINGTREE_RANK", environment.get(b"RANK"))
    return rank.decode() if rank is not None else None


def _kill_a_rank(job: subprocess.Popen[str], folder: Path, rank: str, how: int = signal.SIGKILL) -> list[int]:
    """When three steps are kept; all processes that the job had then."""
    while _kept(folder) < 3:
        assert job.poll() is None, job.communicate()
        time.sleep(0.05)
    processes = _descendants(job.pid)
    # The first: a rank's own children have its environment, too.
    victim = next(pid for pid in processes if _rank_of(pid) == rank)
    os.kill(victim, how)
    return processes


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _expect_the_loss_of_an_undisturbed_run(out: str) -> None:
    from tests.training.reference import alone

    plan = TrainingPlan(shape=Shape(width=16, layers=2, context=8), settings=TrainingSettings(steps=STEPS, batch=4))
    losses = re.findall(rf"step +{STEPS}/{STEPS} +loss (\d+\.\d+)", out)
    assert losses and float(losses[-1]) == pytest.approx(alone(plan)[0][-1], abs=2e-4), out


@pytest.mark.parametrize(
    "layout",
    [
        "--dp=2",
        pytest.param("--dp=2 --zero=3", marks=pytest.mark.slow),
        pytest.param("--pp=2 --micro-batches=2", marks=pytest.mark.slow),
    ],
)
def test_a_killed_rank_is_named_and_a_restart_reaches_the_same_loss(
    layout: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The restart is of one rank, in this process."""
    folder = tmp_path / "checkpoints"
    job = _start(RINGTREE, folder, *layout.split())
    processes = _kill_a_rank(job, folder, "1")
    _, err = job.communicate()
    assert job.returncode == 128 + signal.SIGKILL
    assert re.match(r"ringtree train: rank 1 was killed", err) and "At: " not in err, err
    assert not [pid for pid in processes if _alive(pid)]

    kept = _kept(folder)
    assert 3 <= kept < STEPS
    assert main([*TRAIN, "--checkpoint", str(folder), "--resume", "--every", str(STEPS)]) == 0
    out = capsys.readouterr().out
    assert f"resumed from {folder}/step-{kept:08}" in out
    _expect_the_loss_of_an_undisturbed_run(out)


@pytest.mark.slow
def test_torchrun_restarts_it(tmp_path: Path) -> None:
    """A job with --resume from its first start, when no checkpoint exists."""
    folder = tmp_path / "checkpoints"
    job = _start((*TORCHRUN, "ringtree.cli"), folder, "--dp=2", "--resume")
    _kill_a_rank(job, folder, "1")
    out, err = job.communicate()
    assert job.returncode == 0, err
    assert "no checkpoint in" in out and "resumed from" in out
    assert re.search(r"exitcode: -9\) local_rank: 1|rank 1 died", err), err
    _expect_the_loss_of_an_undisturbed_run(out)


def test_a_rank_that_hangs_is_named(tmp_path: Path) -> None:
    job = _start(RINGTREE, tmp_path / "kept", "--dp", "2", "--timeout", "6")
    processes = _kill_a_rank(job, tmp_path / "kept", "1", signal.SIGSTOP)
    _, errors = job.communicate()
    assert job.returncode == 1 and re.search(
        r"^ringtree train: rank 0: .* rank 0 waited 6 s for rank 1 in ", errors, re.M
    )
    assert not any(map(_alive, processes))
