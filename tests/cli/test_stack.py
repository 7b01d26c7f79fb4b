"""`ringtree stack` of a job that hangs."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest

from ringtree.runtime.observing import stacks
from tests.cli.conftest import Ringtree
from tests.runtime.observing.hanging import hanging_job


@pytest.fixture
def without_py_spy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stacks, "_py_spy", lambda: None)


@pytest.mark.usefixtures("without_py_spy")
def test_stacks_by_a_signal(ringtree: Ringtree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with hanging_job(tmp_path, RINGTREE_STACK_SIGNAL="SIGUSR1") as world:
        whole = ringtree("stack", world.job)
        again = ringtree("stack", str(world.ranks[1].pid), "--rank", "2")
        os.kill(stopped := world.ranks[2].pid or 0, signal.SIGSTOP)
        with monkeypatch.context() as hurried:
            hurried.setattr(stacks, "LONGEST_S", 0.5)
            mute = ringtree("stack", world.job, "--rank", "2")
        os.kill(stopped, signal.SIGCONT)
        native = ringtree("stack", world.job, "--rank", "2", "--native")
        unknown = ringtree("stack", world.job, "--rank", "3")
    assert (whole.code, whole.err) == (0, "")
    parts = re.split(r"^(?=rank \d, process)", whole.out, flags=re.MULTILINE)[1:]
    for part, words in zip(parts, ("waits for rank 1", "waits for rank 2", "in no long wait"), strict=True):
        assert words in part and "(most recent call first)" in part and "program.py" in part
    assert "in outside_of_calls" in parts[2] and "in outside_of_calls" not in parts[0] + parts[1]
    assert again.code == 0 and again.out.count("rank ") == 1 and "in outside_of_calls" in again.out
    assert mute.code == 1 and "it did not answer signal 10 within 0.5 s (is it stopped?)" in mute.out
    assert native.code == 1 and "no C++ stack: py-spy is not installed" in native.out
    assert unknown.code == 1 and "--rank 3: expected one of the 3 ranks" in unknown.err


@pytest.mark.usefixtures("without_py_spy")
def test_ranks_that_did_not_agree_are_left_alone(ringtree: Ringtree, tmp_path: Path) -> None:
    with hanging_job(tmp_path) as world:
        result = ringtree("stack", world.job)
        assert result.code == 1
        why = "no stack: py-spy is not installed, and the rank was started without RINGTREE_STACK_SIGNAL=SIGUSR1"
        assert result.out.count(why) == 3
        for rank in world.ranks:
            os.kill(rank.pid or 0, 0)  # it lives


@pytest.mark.skipif(stacks._py_spy() is None, reason="py-spy is not installed")
def test_stacks_by_py_spy(ringtree: Ringtree, tmp_path: Path) -> None:
    with hanging_job(tmp_path) as world:
        result = ringtree("stack", world.job, "--rank", "2")
        native = ringtree("stack", world.job, "--rank", "0", "--native")
    assert "outside_of_calls" in result.out or "py-spy failed" in result.out
    waits = r"^ +ringtree::wait_slowly \(_native\.[^)]+\)$"
    assert re.search(waits, native.out, re.MULTILINE) or "py-spy failed" in native.out, native.out


@pytest.mark.parametrize("job", ["w0", "1", "nothing", ""])
def test_a_job_that_there_is_not(ringtree: Ringtree, job: str) -> None:
    result = ringtree("stack", job)
    assert result.code == 1 and "no group of this user's" in result.err and result.err.count("\n") == 1
