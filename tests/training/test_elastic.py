"""Elastic training: three ranks are killed one after the other, one comes back, and the loss is as undisturbed."""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ringtree
from ringtree.cli.train.elastic import Roll
from ringtree.cli.train.ranks import ERRORS
from ringtree.runtime.communicator.communicator import Communicator
from ringtree.runtime.launch.launch import RESTART
from ringtree.training import ParallelLayout, Shape, TrainingPlan, TrainingSettings
from tests.runtime.outlived import Ranks, end
from tests.training.test_killed import _alive, _descendants, _rank_of
from tests.waiting import until

RANKS, STEPS, BATCH = 4, 120, 6
PLAN = TrainingPlan(shape=Shape(width=16, layers=2, context=8), settings=TrainingSettings(steps=STEPS, batch=BATCH))
TRAIN = ("train", "--elastic", "--width", "16", "--layers", "2", "--sequence", "8", "--batch", str(BATCH))
LOST = r"^\[(\d)\] lost (rank \d(?: \(restart \d\))?) after step (\d+) \(.*\): (\d) ranks?, which went on after "
JOINED = r"^\[\d\] rank (\d) \(restart 1\) joined after step (\d+): (\d) ranks, after "
NOISE = 1e-5
"""More than that of losses, 8.3e-7: in runs on 1, 2, 3 and 6 ranks (`noise`) rows are added up in other orders."""


def _start(*words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "ringtree.cli", *TRAIN, *words]
    return subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def _printed(job: subprocess.Popen[str], pattern: str) -> re.Match[str]:
    """The next line that has the pattern."""
    assert job.stdout is not None
    for line in job.stdout:
        if found := re.search(pattern, line):
            return found
    raise AssertionError(f"no {pattern}: {job.communicate()}")


def _ranks(job: subprocess.Popen[str]) -> dict[str, int]:
    """The ranks' processes: the first of a number, for its children have it, too."""
    found: dict[str, int] = {}
    for pid in _descendants(job.pid):
        if (rank := _rank_of(pid)) is not None:
            found.setdefault(rank, pid)
    return found


def _kill(job: subprocess.Popen[str], rank: int) -> None:
    os.kill(_ranks(job)[str(rank)], signal.SIGKILL)


def _folder(pid: int) -> Path:
    words = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
    return Path(next(word.partition("=")[2] for word in words if word.startswith(f"{ERRORS}=")))


def _hold_until_one_waits_to_join(job: subprocess.Popen[str], ranks: tuple[int, ...]) -> None:
    """The others stand still meanwhile: to load torch takes longer than the training."""
    held = [_ranks(job)[str(rank)] for rank in ranks]
    for pid in held:
        os.kill(pid, signal.SIGSTOP)
    folder = _folder(held[0])
    until(lambda: any(folder.glob("waits-*")))
    for pid in held:
        os.kill(pid, signal.SIGCONT)


@pytest.fixture
def job(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    words = ("--dp", str(RANKS), "--steps", str(STEPS), "--max-restarts", "1", "--json", str(tmp_path / "all.json"))
    started = _start(*words)
    yield started
    started.kill()
    started.communicate()


def test_three_kills_and_a_join_leave_the_loss_as_it_is(job: subprocess.Popen[str], tmp_path: Path) -> None:
    from tests.training.reference import alone

    _printed(job, r"step +18/")
    _kill(job, 0)  # which speaks, and is started again
    first = _printed(job, LOST)
    assert first.group(1, 2, 4) == ("1", "rank 0", "3")
    _hold_until_one_waits_to_join(job, (1, 2, 3))
    joined = _printed(job, JOINED)
    assert joined.group(1, 3) == ("0", "4")
    _kill(job, 2)
    second = _printed(job, LOST)
    _kill(job, 1)
    third = _printed(job, LOST)
    processes = _descendants(job.pid)
    out, err = job.communicate()
    assert job.returncode == 0, err
    assert [found.group(2, 4) for found in (second, third)] == [("rank 2", "3"), ("rank 1", "2")]
    assert third[1] == "3" and f"[3] step {STEPS}/{STEPS}" in out
    assert re.search(r"rank 0 was killed by SIGKILL; after that rank 2 .*, rank 1 .*; ranks 0, 3 went on", err), err
    assert not [pid for pid in processes if _alive(pid)]

    record = json.loads((tmp_path / "all.json").read_text())
    assert [change["kind"] for change in record["changes"]] == ["lost", "joined", "lost", "lost"]
    whys = [change["why"].partition(" (process")[0] for change in record["changes"]]
    assert whys == ["rank 0 died", "", "rank 2 died", "rank 1 died"]
    assert all(0 < change["seconds"] < 60 for change in record["changes"])
    assert [step["step"] for step in record["steps"]] == [*range(1, STEPS + 1)]
    losses = [step["loss"] for step in record["steps"]]
    assert losses == pytest.approx(alone(PLAN)[0], abs=NOISE)


def test_a_rank_that_ends_before_all_have_met_does_not_end_the_job(tmp_path: Path) -> None:
    from tests.training.reference import alone

    job = _start("--dp", "3", "--steps", str(STEPS), "--json", str(tmp_path / "all.json"))
    until(lambda: len(_ranks(job)) == 3)
    late = _ranks(job)["1"]
    os.kill(late, signal.SIGSTOP)  # it has not loaded torch yet
    folder = _folder(late)
    until(lambda: len([*folder.glob("trains-*")]) == 2)
    time.sleep(0.5)  # the others look for it ten times a second
    os.kill(late, signal.SIGKILL)
    err = job.communicate()[1]
    assert job.returncode == 0, err
    assert re.search(r"rank 1 was killed by SIGKILL; ranks 0, 2 went on", err), err
    record = json.loads((tmp_path / "all.json").read_text())
    losses = [step["loss"] for step in record["steps"]]
    assert losses == pytest.approx(alone(PLAN)[0], abs=NOISE)


@pytest.mark.slow
def test_a_rank_that_ends_before_anybody_has_seen_it_does_not_end_the_job(tmp_path: Path) -> None:
    words = ("--checkpoint", str(tmp_path / "all"), "--every", "1")  # which are there when rank 2 joins rank 0
    job = _start("--dp", "3", "--steps", "40", "--timeout", "8", *words)
    until(lambda: len(_ranks(job)) == 3)
    os.kill(_ranks(job)["1"], signal.SIGKILL)  # no other has loaded torch yet, and so looked for it
    out, err = job.communicate()
    assert job.returncode == 0, err
    assert re.search(r"rank 1 was killed by SIGKILL; ranks 0, 2 went on", err), err
    assert "step 40/40" in out and " joined after step " in out


def test_a_process_that_comes_after_the_last_step_states_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from ringtree.cli.train import elastic_session

    Roll(tmp_path).end()
    monkeypatch.setenv(RESTART, "1")
    options = argparse.Namespace(checkpoint=None, every=None, keep=None, resume=False, json=None)
    elastic_session.train(replace(PLAN, layout=ParallelLayout(dp=2)), options, tmp_path, 1, 5.0)
    assert capsys.readouterr().out == "rank 1 (restart 1) came when the training was done, and computed no step\n"


SHORT = replace(PLAN, settings=replace(PLAN.settings, steps=5))


def _die_in(call: str, number: int) -> None:
    """Ends this process as it begins its call of that number from now on."""
    original, calls = getattr(Communicator, call), count(1)

    def counted(*args: Any, **options: Any) -> Any:
        if next(calls) == number:
            end()
        return original(*args, **options)

    setattr(Communicator, call, counted)


def _trained(comm: Communicator, taken: int, grows: bool = False) -> tuple[list[float], Any]:
    """The losses and the weights after a session that begins when this rank has taken so many steps alone."""
    import torch

    from ringtree.training.core.trainer import Trainer
    from ringtree.training.elastic import ElasticSession

    torch.set_num_threads(1)
    trainer = Trainer(SHORT)
    losses = [float(trainer.step().detach()) for _ in range(taken)]
    steps_s = [0.0] * taken
    waits = iter([grows])

    def ignore(*_: object) -> None: ...

    session = ElasticSession(
        trainer, comm, f"rank {comm.rank}", lambda: next(waits, False), ignore, ignore, ignore, losses, steps_s
    )
    session.run()
    return session.losses, np.concatenate([weight.detach().numpy().ravel() for weight in trainer.weights().values()])


def _hold_to_one_process(results: dict[int, tuple[list[float], Any]]) -> None:
    from tests.training.reference import alone

    expected = alone(SHORT)[0]
    first, *others = (weights for _, weights in results.values())
    assert all(np.array_equal(first, weights) for weights in others)
    for losses, _ in results.values():
        assert losses == pytest.approx(expected, abs=NOISE)


@pytest.mark.parametrize("taken", [(2, 2, 0), (3, 2, 2)], ids=["a newcomer", "the furthest dies"])
@pytest.mark.parametrize("number", [2, -2, 0], ids=["begun", "last", "history"])
def test_a_death_while_state_is_handed_over_leaves_no_mixture(taken: tuple[int, ...], number: int) -> None:
    broadcasts = 4 * _parameters() + 2  # of weights, and AdamW's state of each; the history's length and bytes

    def act(comm: Communicator) -> Any:
        if comm.rank == 0:
            _die_in("broadcast", number if number > 0 else broadcasts + number)
        return _trained(comm, taken[comm.rank])

    with Ranks(3, act) as ranks:
        results = ranks.reports()
    assert [*results] == [1, 2]
    _hold_to_one_process(results)


def test_a_death_before_a_newcomer_has_given_its_name() -> None:
    place = f"names {os.getpid()}"

    def act(comm: Communicator) -> Any:
        if comm.rank == 0:
            _die_in("all_gather_object", 2)  # the first is of the group before
        original = Communicator.grow
        Communicator.grow = lambda comm: original(comm, 1, at=place)  # type: ignore[method-assign, assignment, misc]
        return _trained(comm, 0, grows=comm.rank == 0)

    with Ranks(2, act) as ranks:
        ranks.start(lambda: ringtree.join(place, timeout_s=20))
        results = ranks.reports()
    assert [*results] == [1, 2]
    _hold_to_one_process(results)


def _parameters() -> int:
    from ringtree.training.core.language_model import language_model

    return len([*language_model(SHORT.shape, 0).parameters()])


def noise() -> float:
    """The most by which losses of undisturbed runs are apart, whose rows are added up in 1, 2, 3 and 6 parts."""
    from tests.training.reference import alone

    runs = [alone(replace(PLAN, layout=ParallelLayout(dp=dp)))[0] for dp in (1, 2, 3, 6)]
    return max(max(step) - min(step) for step in zip(*runs, strict=True))
