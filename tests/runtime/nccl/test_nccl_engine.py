"""The nccl engine over Gloo: given schedules, its own collectives, counters, and failures."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from subprocess import run
from typing import Any

import numpy as np
import pytest

from ringtree import Communicator, spawn
from ringtree.algorithms import build
from ringtree.errors import Mismatch, PeerDied, Poisoned, RankFailed, TimedOut
from ringtree.ir.schedule import Schedule
from ringtree.runtime.engines.nccl.choice import chosen
from ringtree.runtime.launch.spawn import Pool
from tests.runtime.nccl.conftest import CARRIER

pytestmark = pytest.mark.torch


def by_schedule(comm: Communicator, schedule: Schedule) -> tuple[list[float], list[list[int]], list[int]]:
    comm.reset_counters()
    x = np.arange(12, dtype=np.float32) + comm.rank
    found = comm.all_reduce(x, algorithm=schedule)
    program = comm.chosen("all_reduce", 12, algorithm=schedule).part.program
    chunks = [program.chunks_from().get(peer, 0) for peer in range(comm.size)]
    return found.tolist(), comm.counters().tolist(), [c * 12 // schedule.chunks * 4 for c in chunks]


@pytest.mark.parametrize("name", ["ring", "double_tree", "recursive_doubling"])
def test_a_given_schedule_runs_and_its_bytes_are_the_programs(gloo: Callable[[int], Pool], name: str) -> None:
    schedule = build(name, "all_reduce", 4, None)
    for total, counted, expected in gloo(4).run(by_schedule, schedule):
        assert total == [4.0 * i + 6 for i in range(12)]
        assert [nbytes for nbytes, _ in counted] == expected


def own(comm: Communicator) -> list[str]:
    calls = ["all_reduce", "reduce", "reduce_scatter", "all_gather", "broadcast", "all_to_all", "gather", "scan"]
    return [comm.chosen(call, 12 * comm.size).part.program.name for call in calls]


def test_calls_without_an_algorithm_are_the_carriers_own_where_it_has_them(gloo: Callable[[int], Pool]) -> None:
    names = gloo(3).run(own)
    assert names[0] == names[1] == names[2]
    assert names[0][:6] == ["gloo's own"] * 6
    assert "gloo's own" not in names[0][6:]


def ordered(comm: Communicator) -> list[float]:
    found: list[float] = comm.all_reduce(np.full(5, 1.5 + comm.rank, np.float32), deterministic="rank_order").tolist()
    return found


def test_a_promised_order_is_kept_by_a_program(gloo: Callable[[int], Pool]) -> None:
    assert gloo(3).run(ordered) == [[7.5] * 5] * 3


def differing(comm: Communicator) -> tuple[str, str]:
    x = np.zeros(10 + (comm.rank == 1), np.float32)
    with pytest.raises(Mismatch) as first:
        comm.all_reduce(x)
    with pytest.raises(Poisoned) as then:
        comm.all_reduce(x)
    assert not x.any()
    return str(first.value), str(then.value)


def test_ranks_that_call_differently_are_told_apart_before_anything_is_sent(over_gloo: None) -> None:
    for first, then in spawn(differing, 3, engine="nccl", timeout_s=20):
        assert "count 10" in first
        assert "count 11" in first
        assert "this group failed before" in then


def leaving(comm: Communicator) -> str:
    x = np.ones(10, np.float32)
    comm.all_reduce(x)
    if comm.rank == 1:
        comm.close()
        return ""
    with pytest.raises(PeerDied) as found:
        while True:
            comm.all_reduce(x, algorithm="ring")
    return str(found.value)


def test_a_rank_that_leaves_is_named(over_gloo: None) -> None:
    found = spawn(leaving, 3, engine="nccl", timeout_s=20)
    assert all("rank 1" in text for text in (found[0], found[2]))


def late(comm: Communicator) -> str:
    if comm.rank == 1:
        time.sleep(3)
        return ""
    with pytest.raises(TimedOut) as found:
        comm.all_reduce(np.ones(10, np.float32))
    return str(found.value)


def test_a_rank_that_does_not_come_is_waited_for_as_long_as_the_timeout(over_gloo: None) -> None:
    assert "rank 1" in spawn(late, 2, engine="nccl", timeout_s=1)[0]


def in_the_middle(comm: Communicator, folder: Path) -> None:
    """Rank 1 dies after the calls were compared."""
    from ringtree.runtime.engines.nccl.running import Run  # needs torch

    x = np.ones(1 << 20, np.float32)
    comm.all_reduce(x, algorithm="ring")
    if comm.rank == 1:
        Run._transfer = lambda *_: os._exit(1)  # type: ignore[method-assign]
    try:
        comm.all_reduce(x, algorithm="ring")
    except PeerDied as found:
        (folder / str(comm.rank)).write_text(str(found))
        with pytest.raises(Poisoned):
            comm.all_reduce(x)


def test_a_rank_that_dies_in_a_call_is_named(over_gloo: None, tmp_path: Path) -> None:
    with pytest.raises(RankFailed, match="rank 1"):
        spawn(in_the_middle, 3, tmp_path, engine="nccl", timeout_s=10)
    assert all("rank 1" in (tmp_path / rank).read_text() for rank in "02")


def besides(comm: Communicator) -> list[Any]:
    x = np.full(3, comm.rank + 1.0)
    group = None if comm.rank == 1 else comm.group([0, 2])
    within = group.all_reduce(x, algorithm="ring").tolist() if group is not None else None
    return [within, comm.beside("nccl", engine="nccl").all_reduce(x).tolist()]


@pytest.mark.parametrize("engine", ["nccl", "shm"])
def test_groups_are_made_of_a_group_and_beside_one(over_gloo: None, engine: str) -> None:
    found = spawn(besides, 3, engine=engine, timeout_s=20)
    assert [both for _, both in found] == [[6.0] * 3] * 3
    assert [within for within, _ in found] == [[4.0] * 3, None, [4.0] * 3]


def shrinking(comm: Communicator) -> list[float]:
    if comm.rank == 1:
        comm.close()
        return []
    with pytest.raises(PeerDied):
        while True:
            comm.all_reduce(np.ones(2))
    fewer = comm.shrink()
    found: list[float] = fewer.all_reduce(np.ones(2), algorithm="ring").tolist()
    return found


def test_survivors_go_on(over_gloo: None) -> None:
    assert spawn(shrinking, 3, engine="nccl", timeout_s=20) == [[2.0, 2.0], [], [2.0, 2.0]]


def test_threads_are_refused(over_gloo: None) -> None:
    with pytest.raises(Exception, match="the nccl engine's ranks are processes; expected threads=False"):
        spawn(own, 2, engine="nccl", threads=True)


def test_a_machine_without_gpus_is_refused_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    monkeypatch.delenv("RINGTREE_NCCL_CARRIER", raising=False)
    with pytest.raises(
        Exception, match=rf"the nccl engine over nccl cannot start: on rank 0 torch .* sees no GPU; {CARRIER}=gloo"
    ):
        spawn(own, 2, engine="nccl", timeout_s=20)


def test_an_engine_without_its_package_names_it() -> None:
    """None among the modules stands for a package that is not installed."""
    code = "import sys; sys.modules['torch'] = None; import ringtree; ringtree.init(engine='nccl')"
    ended = run([sys.executable, "-c", code], capture_output=True, text=True)
    last = ended.stderr.splitlines()[-1]
    assert last.startswith("ImportError: the nccl engine needs torch (") and last.endswith("): pip install torch")


@pytest.mark.parametrize(
    ("command", "carrier", "expected"),
    [
        (
            "benchmarks/nccl_engine.py",
            "nccl",
            "nccl_engine.py: the nccl engine over nccl cannot start: on rank 0 torch",
        ),
        pytest.param(
            "benchmarks/nccl_engine.py",
            "none",
            "nccl_engine.py: RINGTREE_NCCL_CARRIER is 'none'; expected one of nccl,",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "benchmarks/nccl_engine.py --algorithm none",
            "gloo",
            "nccl_engine.py: no algorithm 'none': expected one of",
            marks=pytest.mark.slow,
        ),
        (
            "benchmarks/nccl_engine.py --schedule none",
            "gloo",
            "nccl_engine.py: none: no such file; expected a schedule",
        ),
        ("-m benchmarks.devices -n 2", "nccl", "benchmarks.devices: torch"),
    ],
)
def test_a_benchmark_that_cannot_run_here_ends_with_one_line(command: str, carrier: str, expected: str) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    ended = run([sys.executable, *command.split()], env=os.environ | {CARRIER: carrier}, capture_output=True, text=True)
    assert ended.returncode == 1 and ended.stderr.startswith(expected) and ended.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        (
            ("gloo", "", "", "", 1),
            "rank 4 has RINGTREE_NCCL_CARRIER=nccl and rank 7 gloo: set it to the same on all ranks",
        ),
        (
            ("nccl", "torch has no NCCL", "", "", 0),
            "the nccl engine over nccl cannot start: on rank 7 torch has no NCCL; "
            "RINGTREE_NCCL_CARRIER=gloo carries arrays in host memory",
        ),
        (("nccl", "", "GPU-1", "", 1), "ranks 4 and 7 share the GPU GPU-1, which NCCL does not allow: "),
        (("nccl", "", "GPU-2", "", 1), ""),
    ],
)
def test_ranks_that_have_no_carrier_in_common_are_refused(second: tuple[Any, ...], expected: str) -> None:
    from ringtree.runtime.engines.nccl import carrier  # needs torch

    refused = carrier._refused(["4", "7"], [carrier._Offer("nccl", "", "GPU-1", "", 1), carrier._Offer(*second)])
    assert refused.startswith(expected) and bool(refused) == bool(expected)


@pytest.mark.parametrize("given", ["mpi", "NCCL"])
def test_a_carrier_that_there_is_not_is_refused(given: str) -> None:
    with pytest.raises(ValueError, match=f"RINGTREE_NCCL_CARRIER is '{given}'; expected one of nccl, gloo, staged"):
        chosen({"RINGTREE_NCCL_CARRIER": given})


def asynchronous(comm: Communicator) -> list[Any]:
    works = [comm.all_reduce(np.full(3, float(i + comm.rank)), async_op=True) for i in range(4)]
    return [work.result().tolist() for work in works]


def test_asynchronous_calls_end_in_order(gloo: Callable[[int], Pool]) -> None:
    assert gloo(2).run(asynchronous) == [[[2.0 * i + 1] * 3 for i in range(4)]] * 2
