"""Processes join a group that runs: they get the next ranks, and what fails leaves the group as it was."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ringtree
from ringtree import Mismatch, TimedOut, spawn
from ringtree.runtime.communicator.communicator import Communicator
from ringtree.runtime.communicator.membership import growing
from tests.runtime.communicator.membership.test_shrink import until_it_fails, works
from tests.runtime.conftest import available
from tests.runtime.outlived import Ranks, end
from tests.waiting import until

pytestmark = pytest.mark.skipif(not available("shm"), reason="the native engine is not built")


def seen(comm: Communicator) -> tuple[Any, ...]:
    return comm.rank, comm.size, comm.former_ranks, comm.timeout_s, works(comm)


@pytest.mark.parametrize(
    ("place", "joining"), [pytest.param("a name", 1, marks=pytest.mark.slow), ("a file", 1), ("the job", 2)]
)
def test_newcomers_get_the_next_ranks(place: str, joining: int, tmp_path: Path) -> None:
    at = {"a name": f"grow {os.getpid()}", "a file": f"file://{tmp_path}/board", "the job": None}[place]

    def act(comm: Communicator) -> Any:
        if comm.size == 2:
            old, comm = comm, comm.grow(joining, at=at)
            with pytest.raises(RuntimeError, match="closed"):
                old.barrier()
        found = seen(comm)
        comm.barrier()
        return found

    with Ranks(2, act) as ranks:

        def join() -> Communicator:
            os.environ["RINGTREE_JOB"] = ranks.job
            return ringtree.join(at)

        for _ in range(joining):
            ranks.start(join)
        found = ranks.reports()
    size = 2 + joining
    former = (0, 1, *[-1] * joining)
    assert sorted(found.values()) == [(rank, size, former, 20.0, True) for rank in range(size)]
    assert [found[rank][0] for rank in range(2)] == [0, 1]


def test_one_that_died_is_replaced() -> None:
    at = f"replace {os.getpid()}"

    def act(comm: Communicator) -> Any:
        if not comm.former_ranks:
            if comm.rank == 1:
                end()
            until_it_fails(comm)
            comm = comm.shrink().grow(1, at=at)
        found = seen(comm)
        comm.barrier()
        return found

    with Ranks(3, act) as ranks:
        ranks.start(lambda: ringtree.join(at))
        found = ranks.reports()
    expected = (3, (0, 1, -1), 20.0, True)
    assert found == {0: (0, *expected), 2: (1, *expected), 3: (2, *expected)}


def test_without_a_count_those_who_wait_are_taken_in() -> None:
    at = f"waiting {os.getpid()}"

    def act(comm: Communicator) -> Any:
        if not comm.former_ranks:
            assert comm.grow(at=f"{at} elsewhere") is comm
            until_s = time.monotonic() + 20
            while comm.size == 2 and time.monotonic() < until_s:
                comm = comm.grow(at=at)
        found = seen(comm)
        comm.barrier()
        return found

    with Ranks(2, act) as ranks:
        ranks.start(lambda: ringtree.join(at))
        found = ranks.reports()
    assert [found[rank][:2] for rank in range(3)] == [(0, 3), (1, 3), (2, 3)]


def test_too_few_leave_the_group_as_it_was() -> None:
    def act(comm: Communicator) -> tuple[str, bool]:
        with pytest.raises(TimedOut) as raised:
            comm.grow(2, at=f"nobody {os.getppid()}", timeout_s=0.2)
        return str(raised.value), works(comm)

    for text, right in spawn(act, 2):
        assert text.startswith("0 of 2 processes came to join within 0.2 s; the group is as before")
        assert right


def test_a_newcomer_that_ends_leaves_the_group_as_it_was() -> None:
    """It ends when it has been taken in, before it has met the members."""
    at = f"ends {os.getpid()}"

    def act(comm: Communicator) -> Any:
        began_s = time.monotonic()
        with pytest.raises(TimedOut) as raised:
            comm.grow(1, at=at)
        took_s = time.monotonic() - began_s
        return str(raised.value), works(comm), took_s

    def join() -> Communicator:
        import ringtree.runtime.communicator.membership.growing as growing

        growing._group = lambda *_: end()  # type: ignore[assignment]
        return ringtree.join(at)

    with Ranks(2, act) as ranks:
        ranks.start(join)
        found = ranks.reports()
    assert sorted(found) == [0, 1]
    for text, right, took_s in found.values():
        assert "no group of 3 ranks was made" in text
        assert right
        assert took_s < 10


@pytest.mark.parametrize("place", ["a name", "a file"])
def test_a_newcomer_that_ends_once_it_was_counted_is_not_awaited(place: str, tmp_path: Path) -> None:
    at = f"counted {os.getpid()}" if place == "a name" else f"file://{tmp_path}/board"

    def act(comm: Communicator) -> Any:
        def late(*arguments: Any) -> Any:
            (tmp_path / "counted").touch()
            until((tmp_path / "ended").exists)
            return planned(*arguments)

        planned = growing._plan
        if comm.rank == 0:
            growing._plan = late
        began_s = time.monotonic()
        with pytest.raises(TimedOut, match="no group of 3 ranks was made"):
            comm.grow(1, at=at)
        return works(comm), time.monotonic() - began_s < 10

    with Ranks(2, act) as ranks:
        newcomer = ranks.start(lambda: ringtree.join(at))
        until((tmp_path / "counted").exists)
        ranks.signal(newcomer, signal.SIGKILL)
        ranks.processes[newcomer].join()
        (tmp_path / "ended").touch()
        found = ranks.reports()
    assert found == dict.fromkeys(range(2), (True, True))


def test_nobody_takes_it_in(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TimeoutError, match="no group took this process in at 'nowhere"):
        ringtree.join(f"nowhere {os.getpid()}", timeout_s=0.1)
    monkeypatch.setenv("RINGTREE_JOB", f"nobody's {os.getpid()}")
    with pytest.raises(TimeoutError, match="no group took this process in at the place of its job: have its ranks"):
        ringtree.join(timeout_s=0.1)


@pytest.mark.parametrize(
    ("count", "at", "expected"),
    [
        (0, None, "count is 0; expected at least 1 process"),
        (1, "", "at is ''; expected a name on this machine"),
        (1, "tcp://1.2.3.4:5", "expected a name on this machine, or file:///path"),
        (1, 5, "at is an int; expected a name on this machine"),
        (1, "file:board", "expected a name on this machine, or file:///path"),
        (True, None, "count is True; expected a whole number"),
    ],
)
def test_mistakes(count: int, at: Any, expected: str) -> None:
    def act(comm: Communicator) -> None:
        with pytest.raises((TypeError, ValueError), match=expected):
            comm.grow(count, at=at)
        comm.barrier()

    spawn(act, 1)


def test_a_file_that_cannot_be_written_is_named_as_it_was_given(tmp_path: Path) -> None:
    def act(comm: Communicator) -> None:
        with pytest.raises(RuntimeError, match=r"rank 0 cannot write at=file:///.*none/x .there is no folder"):
            comm.grow(at=f"file://{tmp_path}/none/x", timeout_s=5)

    spawn(act, 1)


def test_two_groups_do_not_take_in_at_one_file(tmp_path: Path) -> None:
    """The second hears of the first, which is served all the same."""
    file = tmp_path / "board"

    def act(comm: Communicator) -> int:
        alone = comm.group([comm.rank])
        assert alone is not None
        if comm.rank == 0:
            return alone.grow(1, at=f"file://{file}").size
        until_s = time.monotonic() + 20
        while not file.exists() and time.monotonic() < until_s:
            time.sleep(0.01)
        with pytest.raises(RuntimeError, match=f"another group takes processes in at .*{file}; expected a file of its"):
            alone.grow(1, at=f"file://{file}")
        return ringtree.join(f"file://{file}", timeout_s=20).size

    assert spawn(act, 2) == [2, 2]


@pytest.mark.parametrize("what", ["a text", "a pipe"])
def test_what_somebody_else_keeps_at_the_place_stays(what: str, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.write_text("precious") if what == "a text" else os.mkfifo(kept)

    def act(comm: Communicator) -> None:
        with pytest.raises(RuntimeError, match="what is there is not what rank 0 of a job has left"):
            comm.grow(1, at=f"file://{kept}", timeout_s=0.5)
        comm.barrier()

    spawn(act, 2)
    assert kept.is_fifo() if what == "a pipe" else kept.read_text() == "precious"


def test_a_process_of_no_job_has_to_name_the_place(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RINGTREE_JOB", "RINGTREE_ADDRESS", "RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_STEP_ID"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ValueError, match="there is no place to join at: give at="):
        ringtree.join()


def test_ranks_that_differ_hear_of_it() -> None:
    def act(comm: Communicator) -> None:
        with pytest.raises(Mismatch, match="grow"):
            comm.grow(1 + comm.rank, at="differ", timeout_s=1.0)
        np.testing.assert_array_equal(comm.all_gather(np.array([comm.rank]))[:, 0], [0, 1])

    spawn(act, 2)


def test_another_secret_is_named_on_both_sides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at = f"file://{tmp_path}/board"

    def act(comm: Communicator) -> str:
        alone = comm.split(comm.rank)
        if comm.rank == 1:
            os.environ["RINGTREE_SECRET"] = "another"
            until((tmp_path / "board").exists)
            with pytest.raises(TimeoutError) as caught:
                ringtree.join(at, timeout_s=0.3)
        else:
            with pytest.raises(TimedOut) as caught:
                alone.grow(1, at=at, timeout_s=1.5)
        return str(caught.value)

    monkeypatch.setenv("RINGTREE_SECRET", "the group's")
    grown, joined = ringtree.spawn(act, 2)
    assert re.search(r"0 of 1 .* a process on \S+ came with another secret: set RINGTREE_SECRET alike for all", grown)
    assert joined == (
        f"no group took this process in at {at}: the group there has another secret: "
        "set RINGTREE_SECRET alike for its ranks and this process"
    )
