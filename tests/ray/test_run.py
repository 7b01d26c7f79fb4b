"""Ranks that Ray places on two nodes of this machine: results, failures, and that nothing stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ringtree
import ringtree.ray
from ringtree.errors import RankFailed
from tests.ray.conftest import CPUS, NODES, ROOT
from tests.waiting import until

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("cluster")]
ALL = CPUS * NODES


def states() -> list[str]:
    """Of all placement groups that there have been."""
    from ray.util import placement_group_table

    return [group["state"] for group in placement_group_table().values()]


def ended(folder: Path, ranks: int) -> bool:
    """Whether all ranks that wrote their process id into the folder have ended, and so many have."""
    pids = [int(file.name) for file in folder.iterdir() if file.name.isdigit()]
    return len(pids) == ranks and not any(alive(pid) for pid in pids)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture(autouse=True)
def nothing_stays(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[None]:
    """After every test: no placement group, and no process that a rank has written down."""
    yield
    until(lambda: set(states()) <= {"REMOVED"})
    until(lambda: not any(alive(int(f.name)) for f in tmp_path.iterdir() if f.name.isdigit()))


def noted(comm: ringtree.Communicator, folder: Path) -> None:
    """Writes this rank's process id down, and waits for the others to have done so."""
    (folder / str(os.getpid())).touch()
    comm.barrier()


def placed(comm: ringtree.Communicator, add: int) -> tuple[int, str, float, bool]:
    import ray

    total = float(comm.all_reduce(np.array([comm.rank + add]))[0])
    with ringtree.init() as second:
        alike = (second.rank, second.size) == (comm.rank, comm.size)
    return comm.rank, ray.get_runtime_context().get_node_id(), total, alike


@pytest.mark.parametrize(
    ("ranks", "options", "on_nodes"),
    [
        (ALL, {}, [2, 2]),
        (2, {"placement": "spread"}, [1, 1]),
        (3, {"per_node": 2}, [2, 1]),
        (4, {"per_node": 2, "cpus_per_rank": 0.5}, [2, 2]),
    ],
)
def test_results_are_in_the_order_of_the_ranks(ranks: int, options: dict[str, Any], on_nodes: list[int]) -> None:
    import ray

    until(lambda: ray.available_resources().get("CPU") == ALL)  # Ray spreads over what is free, later than it ends
    results = ringtree.ray.run(placed, ranks, 1, **options)
    expected = float(sum(range(1, ranks + 1)))
    assert [(rank, total, alike) for rank, _, total, alike in results] == [(r, expected, True) for r in range(ranks)]
    nodes = [node for _, node, _, _ in results]
    in_turn = list(dict.fromkeys(nodes))
    assert [nodes.count(node) for node in in_turn] == on_nodes
    assert nodes == [node for node in in_turn for _ in range(nodes.count(node))]  # neighbours by number


def test_a_closure_its_variables_and_an_empty_world() -> None:
    base = 40

    def in_a_process_of_its_own(comm: ringtree.Communicator, more: int) -> tuple[int, str, str]:
        return base + comm.rank + more, os.environ["THERE"], os.environ["OMP_NUM_THREADS"]

    found = ringtree.ray.run(in_a_process_of_its_own, 1, 2, cpus_per_rank=2, env={"THERE": "yes"})
    assert found == [(42, "yes", "2")]


def raises(comm: ringtree.Communicator, folder: Path) -> None:
    noted(comm, folder)
    if comm.rank == 1:
        raise ValueError("of rank 1")
    comm.barrier()


class Picky(Exception):
    """One that cannot be made from what pickle keeps of it."""

    def __init__(self, *, why: str) -> None:
        super().__init__(f"because of {why}")


def raises_what_cannot_be_pickled(comm: ringtree.Communicator, folder: Path) -> None:
    noted(comm, folder)
    if comm.rank == 1:
        raise Picky(why="rank 1")
    comm.barrier()


def exits(comm: ringtree.Communicator, folder: Path) -> None:
    noted(comm, folder)
    if comm.rank == 1:
        os._exit(3)
    while True:
        comm.barrier()


def is_killed(comm: ringtree.Communicator, folder: Path) -> None:
    noted(comm, folder)
    if comm.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(600)  # it does not notice: the driver ends it


def returns_what_cannot_be_pickled(comm: ringtree.Communicator, folder: Path) -> Any:
    noted(comm, folder)
    return threading.Lock() if comm.rank == 1 else None


@pytest.mark.parametrize(
    ("fails", "expected"),
    [
        (raises, "ValueError: of rank 1"),
        (raises_what_cannot_be_pickled, "because of rank 1"),
        (exits, "its process ended: "),
        (is_killed, "its process ended: "),
        (returns_what_cannot_be_pickled, "TypeError: cannot pickle"),
    ],
)
def test_a_failure_names_rank_and_node_and_ends_the_others(
    fails: Callable[..., Any], expected: str, tmp_path: Path
) -> None:
    import ray

    with pytest.raises(RankFailed) as caught:
        ringtree.ray.run(fails, 3, tmp_path)
    first = str(caught.value).splitlines()[0]
    address = ray.util.get_node_ip_address()
    assert first.startswith(f"rank 1 of 3 on node {address} (") and expected in first, first
    assert any(node["NodeID"].startswith(first.split("(")[1][:8]) for node in ray.nodes())
    assert caught.value.rank == 1
    until(lambda: ended(tmp_path, 3))


def steps(comm: ringtree.Communicator, folder: Path, total: int, fails_at: int) -> tuple[int, int]:
    """Counts to `total`, a checkpoint each step; rank 1 fails once at a step."""
    checkpoint = folder / "step"
    first = int(checkpoint.read_text()) if checkpoint.exists() else 0
    for step in range(first, total):
        comm.barrier()
        if comm.rank == 1 and step == fails_at and first == 0:
            os._exit(1)
        comm.barrier()
        if comm.rank == 0:
            checkpoint.write_text(str(step + 1))
    return first, total


def test_a_restart_goes_on_from_a_checkpoint(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert ringtree.ray.run(steps, 2, tmp_path, 6, 3, restarts=2) == [(3, 6)] * 2
    (line,) = [record.getMessage() for record in caplog.records if record.name == "ringtree.ray"]
    assert line.startswith("rank 1 of 2 on node ") and line.endswith("; all ranks start again, 2 times at most")


def always(comm: ringtree.Communicator, folder: Path) -> None:
    if comm.rank == 0:
        (folder / f"attempt of {os.getpid()}").touch()
    comm.barrier()
    raise ValueError("again")


def test_restarts_end(tmp_path: Path) -> None:
    with pytest.raises(RankFailed, match="ValueError: again"):
        ringtree.ray.run(always, 2, tmp_path, restarts=1)
    assert len(list(tmp_path.iterdir())) == 2


def test_a_full_cluster_is_named() -> None:
    has = rf"the cluster has {NODES} nodes with {ALL} CPUs, \d of them free"
    with pytest.raises(TimeoutError, match=rf"no room for {ALL + 1} ranks of 1 CPUs within 1 s: {has}"):
        ringtree.ray.run(placed, ALL + 1, 1, env={"RINGTREE_TIMEOUT": "1"})
    why = f"no room for {NODES + 1} ranks of 1 CPUs, 1 on each node within 1 s"
    with pytest.raises(TimeoutError, match=why):
        ringtree.ray.run(placed, NODES + 1, 1, per_node=1, env={"RINGTREE_TIMEOUT": "1"})


def test_what_a_node_cannot_import_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "only_here.py").write_text("def fn(comm): return 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import only_here  # type: ignore[import-not-found]

    with pytest.raises(RankFailed, match=r"rank \d of 2 on node .* failed: .*No module named 'only_here'"):
        ringtree.ray.run(only_here.fn, 2)


DRIVER = """
import pathlib, sys, time
import ray, ringtree.ray
from tests.ray import test_run
ray.init(address=sys.argv[1], log_to_driver=False)
def stays(comm, folder):
    test_run.noted(comm, folder)
    (folder / "all are here").touch()
    time.sleep(600)
ringtree.ray.run(stays, 2, pathlib.Path(sys.argv[2]))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_the_end_of_the_driver_ends_the_ranks(number: signal.Signals, cluster: Any, tmp_path: Path) -> None:
    driver = subprocess.Popen([sys.executable, "-c", DRIVER, cluster.address, str(tmp_path)], cwd=ROOT)
    try:
        until((tmp_path / "all are here").exists)
        driver.send_signal(number)
        assert driver.wait(30) != 0
        until(lambda: ended(tmp_path, 2))
    finally:
        driver.kill()
        driver.wait()


def test_the_example_prints_each_ranks_sum(cluster: Any) -> None:
    done = subprocess.run(
        [sys.executable, "examples/on_ray.py", "--ranks", "2", "--per-node", "1"],
        cwd=ROOT,
        env=os.environ | {"RAY_ADDRESS": cluster.address},
        capture_output=True,
        text=True,
    )
    assert done.stdout.splitlines()[-2:] == [f"rank {rank} on host 0 has 1" for rank in range(2)], done.stderr
