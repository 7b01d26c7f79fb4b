"""Ranks from a running program: results, failures, pools."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ringtree
from ringtree import Pool, RankFailed, spawn
from ringtree.runtime.communicator.communicator import Communicator
from ringtree.runtime.engines.shm import MOST_SLOTS
from ringtree.runtime.launch.spawn import MOST_RANKS
from tests.runtime.communicator.test_lifetime import children
from tests.runtime.conftest import available
from tests.waiting import Event


def kinds() -> list[dict[str, Any]]:
    options: list[dict[str, Any]] = [{"engine": "reference", "threads": True}]
    return [*options, {}, {"threads": True}] if available("shm") else options


way = pytest.mark.parametrize("way", kinds(), ids=lambda w: "-".join(map(str, w.values())) or "processes")


@way
def test_results_come_in_order_of_ranks(way: dict[str, Any]) -> None:
    secret = 40  # a closure
    assert spawn(lambda comm, a: comm.rank * 10 + a + secret, 4, 2, **way) == [42, 52, 62, 72]
    assert spawn(lambda comm: comm.all_gather(comm.rank).tolist(), 2, **way) == [[0, 1], [0, 1]]


@way
def test_arrays_come_back(way: dict[str, Any]) -> None:
    big = spawn(lambda comm: np.full(300_000, comm.rank), 3, **way)
    assert [int(x[-1]) for x in big] == [0, 1, 2]


@pytest.mark.parametrize(("n", "expected"), [(0, "at least 1"), (-1, "at least 1"), (100_000, "at most 4096")])
def test_no_ranks_and_too_many_are_a_mistake(n: int, expected: str) -> None:
    assert MOST_SLOTS == MOST_RANKS
    with pytest.raises(ValueError, match=f"{n} ranks: expected {expected}"):
        spawn(print, n)


def test_arguments_in_the_wrong_order_are_refused() -> None:
    with pytest.raises(TypeError, match=r"spawn\(2, ...\): expected a function that takes a communicator"):
        spawn(2, len)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="n is a float; expected a whole number"):
        spawn(len, 2.0)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("pin", "error", "match"),
    [
        (3, TypeError, "pin is an int; expected a list of cores"),
        (["a"], TypeError, "a core of pin is a str; expected a whole number"),
        ([], ValueError, "pin has 0 of 1 cores; expected one for each rank"),
        ([-1], ValueError, "pin has core -1; expected cores that this process may use"),
    ],
)
def test_cores_that_are_none_are_refused(pin: Any, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        spawn(len, 1, pin=pin)


def test_unknown_engines_are_a_mistake() -> None:
    with pytest.raises(ValueError, match="no engine 'magic': expected one of shm, reference"):
        spawn(print, 1, engine="magic", threads=True)


def test_the_reference_engine_wants_threads() -> None:
    with pytest.raises(ValueError, match="threads=True"):
        spawn(print, 2, engine="reference")


LAUNCHED = {
    "ringtree run": {"RINGTREE_RANK": "1", "RINGTREE_WORLD_SIZE": "4", "RINGTREE_JOB": "f00d"},
    "ringtree.spawn": {"RINGTREE_RANK": "1", "RINGTREE_WORLD_SIZE": "4", "RINGTREE_JOB": "spawn-7-0"},
    "torchrun": {"RANK": "1", "WORLD_SIZE": "4"},
    "Open MPI": {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "4"},
}


@pytest.mark.parametrize("start", [spawn, lambda fn, n: Pool(n)], ids=["spawn", "Pool"])
@pytest.mark.parametrize("launcher", LAUNCHED)
def test_a_launched_rank_starts_no_ranks_of_its_own(
    launcher: str, start: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in LAUNCHED[launcher].items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=rf"in rank 1 of the 4 that {launcher} started .*expected comm = "):
        start(print, 3)


@way
def test_a_world_of_one_may_start_ranks(way: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a step of srun -n 1."""
    monkeypatch.setenv("RINGTREE_RANK", "0")
    monkeypatch.setenv("RINGTREE_WORLD_SIZE", "1")
    assert spawn(lambda comm: comm.all_reduce(1), 2, **way) == [2, 2]


@way
def test_a_pool_keeps_its_ranks(way: dict[str, Any]) -> None:
    with Pool(3, **way) as pool:
        first = pool.run(identity)
        assert pool.run(identity) == first
        assert pool.run(total, 5) == [15, 15, 15]
        assert pool.alive
    with pytest.raises(RuntimeError, match="this pool has ended"):
        pool.run(identity)


def identity(comm: Communicator) -> tuple[int, int]:
    return os.getpid(), threading.get_ident()


def total(comm: Communicator, x: int) -> int:
    return int(comm.all_reduce(x))


@way
def test_threads_have_turns_in_a_pool(way: dict[str, Any]) -> None:
    """Each gets the results of its own call."""
    wrong: list[Any] = []
    with Pool(2, timeout_s=20, **way) as pool:

        def ask(thread: int) -> None:
            for i in range(20):
                if (got := pool.run(total, 100 * thread + i)) != [200 * thread + 2 * i] * 2:
                    wrong.append(got)

        threads = [threading.Thread(target=ask, args=(i,)) for i in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert pool.run(total, 1) == [2, 2]
    assert wrong == []


def fail(comm: Communicator) -> None:
    if comm.rank == 1:
        raise LookupError("not here")
    comm.barrier()


@way
def test_a_failure_ends_a_pool(way: dict[str, Any]) -> None:
    pool = Pool(3, timeout_s=60, **way)
    with pytest.raises(RankFailed, match="rank 1 of 3 failed: LookupError: not here") as caught:
        pool.run(fail)
    assert isinstance(caught.value.__cause__, LookupError)
    assert not pool.alive


def fails_at_length(comm: Communicator) -> None:
    raise LookupError("begins" + 1_000_000 * "x" + "ends")


@way
def test_a_long_message_is_cut(way: dict[str, Any]) -> None:
    with pytest.raises(RankFailed) as caught:
        spawn(fails_at_length, 2, **way)
    text = str(caught.value)
    assert len(text) < 50_000 and text.count("characters left out") == 2
    assert "failed: LookupError: begins" in text and text.rstrip().endswith("xends") and "in fails_at_length" in text
    assert len(str(caught.value.__cause__)) == 1_000_010


def test_the_end_of_a_process_is_described() -> None:
    pytest.importorskip("ringtree._native")
    with pytest.raises(RankFailed, match="rank 0 of 2 failed: its process exited with code 7"):
        spawn(lambda comm: os._exit(7) if comm.rank == 0 else None, 2)
    with pytest.raises(RankFailed, match="rank 1 of 2 failed: SystemExit: 3"):
        spawn(lambda comm: sys.exit(3) if comm.rank == 1 else None, 2)
    with pytest.raises(RankFailed, match="its result cannot be pickled"):
        spawn(lambda comm: lambda: 0, 2)


def leaves_a_child_and_is_killed(comm: Communicator, known: Event) -> None:
    if comm.rank == 1:
        if os.fork() == 0:
            known.wait()
            os._exit(0)
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_rank_has_ended_though_a_child_of_its_own_has_its_pipe() -> None:
    pytest.importorskip("ringtree._native")
    known = Event()
    with pytest.raises(RankFailed, match="rank 1 of 2 failed: its process was killed by SIGKILL"):
        spawn(leaves_a_child_and_is_killed, 2, known)
    known.set()


def raises_its_own(comm: Communicator, folder: str, fails: bool) -> Any:
    sys.path.insert(0, folder)
    own = importlib.import_module("only_of_the_ranks")
    if fails:
        raise own.Boom("the real error")
    return own.Boom("a result")


@pytest.mark.parametrize(
    ("fails", "story"),
    [
        (True, "only_of_the_ranks.Boom: the real error"),
        (False, "its result cannot be unpickled here: ModuleNotFoundError"),
    ],
)
def test_an_error_that_only_the_rank_can_import_is_shown(tmp_path: Path, fails: bool, story: str) -> None:
    pytest.importorskip("ringtree._native")
    (tmp_path / "only_of_the_ranks.py").write_text("class Boom(Exception): pass\n")
    with pytest.raises(RankFailed, match=f"rank [01] of 2 failed: {story}"):
        spawn(raises_its_own, 2, str(tmp_path), fails)


def test_ranks_end_where_sigchld_is_ignored() -> None:
    """In a process of its own, whose children are its ranks alone."""
    pytest.importorskip("ringtree._native")
    program = (
        "import os, signal; from ringtree import spawn; signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
        "print(spawn(lambda comm: comm.rank, 2))\n"
        "spawn(lambda comm: os._exit(7), 1)"
    )
    got = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert got.stdout == "[0, 1]\n"
    assert "rank 0 of 1 failed: its process ended; nobody knows how" in got.stderr


@pytest.mark.parametrize("closes", ["sys.stdout = None", "sys.stdout.close()", "sys.stderr = None", ""])
def test_streams_may_be_closed(closes: str) -> None:
    """As in a daemon, or by who starts the program."""
    pytest.importorskip("ringtree._native")
    program = f"import sys, ringtree; {closes}\nassert ringtree.spawn(lambda comm: comm.rank, 2) == [0, 1]"
    command = ["sh", "-c", f'exec "$0" -c "$1" {"" if closes else ">&- 2>&-"}', sys.executable, program]
    assert subprocess.run(command, timeout=60).returncode == 0


def interrupted(comm: Communicator) -> None:
    if comm.rank == 1:
        raise KeyboardInterrupt
    comm.barrier()


@way
def test_an_interrupted_rank_is_named(way: dict[str, Any]) -> None:
    with pytest.raises(RankFailed, match=r"rank 1 of 2 failed: it was interrupted \(KeyboardInterrupt\)") as caught:
        spawn(interrupted, 2, timeout_s=20, **way)
    assert isinstance(caught.value.__cause__, KeyboardInterrupt)


def interruptible(_: Communicator) -> int:
    """A shell starts what runs in its background with SIGINT ignored, and ranks inherit that."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    return os.getpid()


@pytest.mark.parametrize(
    ("number", "story"),
    [(signal.SIGINT, "it was interrupted"), (signal.SIGKILL, "its process was killed by SIGKILL")],
    ids=["SIGINT", "SIGKILL"],
)
def test_a_rank_that_ended_between_two_calls_of_a_pool_is_named(number: signal.Signals, story: str) -> None:
    pytest.importorskip("ringtree._native")
    with Pool(2) as pool:
        process = pool.run(interruptible)[1]
        os.kill(process, number)
        os.waitid(os.P_PID, process, os.WEXITED | os.WNOWAIT)
        with pytest.raises(RankFailed, match=f"rank 1 of 2 failed: {story}"):
            pool.run(identity)


def test_a_rank_that_hangs_after_a_failure_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ringtree._native")
    monkeypatch.setattr("ringtree.runtime.launch.spawn.GRACE_S", 0.3)
    before = children()
    with pytest.raises(RankFailed, match="ValueError: gone"):
        spawn(hang, 3)
    assert children() == before


def hang(comm: Communicator) -> None:
    if comm.rank == 0:
        raise ValueError("gone")
    time.sleep(1000)


def test_ranks_are_pinned_when_they_fit() -> None:
    pytest.importorskip("ringtree._native")
    cores = len(os.sched_getaffinity(0))

    def mine(comm: Communicator) -> list[int]:
        return sorted(os.sched_getaffinity(0))

    pinned = spawn(mine, cores, pin=True)
    assert sorted(core for (core,) in pinned) == sorted(os.sched_getaffinity(0))
    assert {len(own) for own in spawn(mine, cores + 1, pin=True)} == {cores}


def test_init_in_a_spawned_rank_is_that_world() -> None:
    pytest.importorskip("ringtree._native")

    def again(comm: Communicator) -> tuple[int, int]:
        with ringtree.init() as world:
            return world.rank, int(world.all_reduce(1))

    assert spawn(again, 3) == [(0, 3), (1, 3), (2, 3)]


def test_pools_live_side_by_side() -> None:
    pytest.importorskip("ringtree._native")
    with Pool(2) as one, Pool(3) as two:
        assert one.run(total, 1) == [2, 2]
        assert two.run(total, 1) == [3, 3, 3]
        one.close()
        assert two.run(total, 2) == [6, 6, 6]


def test_spawned_ranks_share_a_host_though_their_parents_job_has_several(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ringtree._native")
    monkeypatch.setenv("RINGTREE_ADDRESS", "192.0.2.1:29400")
    assert ringtree.spawn(lambda comm: ringtree.init(timeout_s=20).size, 2) == [2, 2]


COLD = """
import sys, numpy as np, ringtree
def first_calls(comm):
    before = set(sys.modules)
    comm.barrier(), comm.all_reduce(np.ones(4)), comm.all_gather_object(1)
    comm.split(0).all_to_all(np.ones(2)), comm.empty(3)
    return sorted(set(sys.modules) - before)
print(ringtree.spawn(first_calls, 2))
"""


@pytest.mark.skipif(not available("shm"), reason="the native engine is not built")
def test_ranks_load_nothing_at_their_first_calls() -> None:
    """What they need is loaded once, before they are forked."""
    done = subprocess.run([sys.executable, "-c", COLD], capture_output=True, text=True)
    assert done.stdout == "[[], []]\n", done
