"""The world communicator: alone, and among ranks of `ringtree run`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ringtree import init
from ringtree.runtime.engines import engine as engines
from ringtree.runtime.launch.launch import run
from ringtree.runtime.world import patience


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RINGTREE_RANK", "RINGTREE_WORLD_SIZE", "RINGTREE_JOB", "RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK"):
        monkeypatch.delenv(name, raising=False)


def test_without_a_launcher_the_world_has_one_rank(engine: str) -> None:
    with init(engine=engine) as comm:
        assert (comm.rank, comm.size) == (0, 1)
        x = np.arange(3.0)
        assert np.array_equal(comm.all_reduce(x, "avg"), x)
        assert comm.all_gather(x).shape == (1, 3)
        sub = comm.split(3)
        assert sub is not None
        assert sub.size == 1
        assert repr(comm) == f"<Communicator rank 0 of 1, engine {engine}>"


def test_an_engine_of_threads_is_refused_to_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """At once: its ranks meet in one process's memory."""
    monkeypatch.setenv("RINGTREE_RANK", "1")
    monkeypatch.setenv("RINGTREE_WORLD_SIZE", "2")
    remedy = r"rank 1 of 2: .*threads of one process.*ringtree\.spawn\(work, 2, engine='reference', threads=True\)"
    with pytest.raises(ValueError, match=remedy):
        init(engine="reference", timeout_s=2)


@pytest.mark.parametrize(
    ("given", "kind", "text"),
    [
        ({"store": {}}, TypeError, r"store is \{\}; expected an object with set\(key, value\) and get\(key\)"),
        ({"mpi": 3}, TypeError, "mpi is 3; expected mpi4py's communicator"),
    ],
)
def test_what_ranks_cannot_meet_by_is_refused(given: dict[str, Any], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        init(**given)


def test_a_folder_of_recordings_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RINGTREE_TRACE_FOLDER", "/nonexistent/x")
    with pytest.raises(ValueError, match=r"rank 0 cannot .* RINGTREE_TRACE_FOLDER=/nonexistent/x; expected a folder"):
        init()


MPI_MISTAKES = """
from ringtree import init, mpi
world = mpi.COMM_WORLD
def end(**given):
    try:
        init(**given)
    except Exception as error:
        print(f"{type(error).__name__}: {error}\\n", end="", flush=True)
end(mpi=world, timeout_s=-1 if world.rank == 0 else 20)
alone = world.Split(world.rank)
end(mpi=alone.Create_intercomm(0, world, 1 - world.rank))
"""


def test_a_mistake_with_a_communicator_hangs_nobody(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Rank 0's alone reaches the others, which wait for its broadcast without a limit."""
    (tmp_path / "mistakes.py").write_text(MPI_MISTAKES)
    assert run([str(tmp_path / "mistakes.py")], 2) == 0
    why = "timeout_s is -1; expected a positive number of seconds"
    two = "ValueError: mpi is an intercommunicator of two groups; expected one of one group, as its Merge() makes"
    assert sorted(capfd.readouterr().out.splitlines()) == sorted(
        [
            f"[0] ValueError: {why}",
            f"[1] RuntimeError: rank 0 failed before the ranks met: {why}",
            f"[0] {two}",
            f"[1] {two}",
        ]
    )


def test_a_world_of_one_needs_no_native_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> object:
        raise ImportError("no module named _native")

    monkeypatch.setattr(engines, "import_module", missing)
    assert engines.default_engine(1) == "reference"
    with pytest.raises(RuntimeError, match=r"the native engine is not installed .*pip install"):
        engines.default_engine(2)


TORCH_ALONE = """
import sys
sys.modules["ringtree._native"] = None
import torch, torch.distributed as dist
import ringtree.torch_backend
from ringtree.torch_backend.flight.recorder import RING
dist.init_process_group("ringtree", store=dist.HashStore(), rank=0, world_size=1)
x = torch.full((3,), 2.0)
for asynchronous in (False, True, False):
    work = dist.all_reduce(x, async_op=asynchronous)
    assert work is None or work.wait()
[*_, entry] = RING
assert len(RING) == 3 and x.tolist() == [2.0] * 3
assert entry.inputs == entry.outputs == ((x.shape, x.dtype),) and entry.ended_ns >= entry.begun_ns > 0
assert (entry.peer, entry.event, entry.failed, entry.number) == (None, None, False, 3) and "(float32 [3])" in str(entry)
"""


@pytest.mark.torch
def test_a_world_of_one_serves_torch_without_the_native_engine() -> None:
    done = subprocess.run([sys.executable, "-c", TORCH_ALONE], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_ranks_of_ringtree_run_find_each_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("ringtree._native")
    file = tmp_path / "program.py"
    file.write_text(
        "import ringtree\nwith ringtree.init(timeout_s=60) as comm:\n"
        "    print(comm.rank, comm.all_reduce(comm.rank + 1))\n"
    )
    assert run([str(file)], 4) == 0
    assert sorted(capsys.readouterr().out.splitlines()) == [f"[{r}] {r} 10" for r in range(4)]


def test_absent_ranks_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("ringtree._native")
    file = tmp_path / "program.py"
    file.write_text(
        "import os, pathlib, ringtree, time\n"
        "rank = os.environ['RINGTREE_RANK']\n"
        "if rank in '02':\n"
        "    pathlib.Path(__file__).with_name(rank).touch()\n"
        "    while not all(pathlib.Path(__file__).with_name(r).exists() for r in '02'):\n"
        "        time.sleep(0.01)\n"
        "    try:\n"
        "        ringtree.init(timeout_s=1.5)\n"
        "    finally:\n"
        "        pathlib.Path(__file__).with_name('ended' + rank).touch()\n"
        "while not all(pathlib.Path(__file__).with_name('ended' + r).exists() for r in '02'):\n"
        "    time.sleep(0.01)\n"  # absent, but alive
    )
    assert run([str(file)], 4) == 1
    stderr = capsys.readouterr().err
    for rank in (0, 2):
        assert f"[{rank}] TimeoutError: ranks 1, 3 did not come to the group of 4 ranks within 1.5 s" in stderr


def test_a_rank_that_ends_well_before_init_is_named_to_those_that_wait(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("ringtree._native")
    file = tmp_path / "program.py"
    file.write_text(
        "import os, sys\n"
        "if os.environ['RINGTREE_RANK'] == '1':\n    sys.exit()\n"
        "import ringtree\nringtree.init(timeout_s=60)\n"
    )
    assert run([str(file)], 3) == 1
    lines = capsys.readouterr().err.splitlines()
    for rank in (0, 2):
        own = next(line for line in lines if line.startswith(f"[{rank}] ringtree.errors.PeerDied: "))
        assert "PeerDied: rank 1 ended (its process exited with code 0) while rank " in own
        assert own.endswith(" waited for the group of 3 ranks; expected ringtree.init() of every rank")


def test_a_rank_that_came_too_late_meets_the_others_at_their_next_attempt(tmp_path: Path) -> None:
    pytest.importorskip("ringtree._native")
    file = tmp_path / "program.py"
    file.write_text(
        "import os, pathlib, time, ringtree\n"
        "here, rank = pathlib.Path(__file__).parent, os.environ['RINGTREE_RANK']\n"
        "def both(moment):\n"
        "    if rank != '2':\n"
        "        (here / f'{rank} {moment}').touch()\n"
        "    while len([*here.glob(f'* {moment}')]) < 2:\n"
        "        time.sleep(0.01)\n"
        "both('comes')\n"
        "if rank != '2':\n"
        "    try:\n"
        "        ringtree.init(timeout_s=1)\n"
        "    except TimeoutError:\n"
        "        (here / f'{rank} failed').touch()\n"
        "else:\n"
        "    both('failed')\n"
        "with ringtree.init(timeout_s=10) as comm:\n"
        "    assert comm.all_reduce(1) == 3\n"
    )
    assert run([str(file)], 3) == 0


def test_a_death_is_reported_to_survivors_and_launcher(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("ringtree._native")
    file = tmp_path / "program.py"
    file.write_text(
        "import os, signal, numpy, ringtree\ncomm = ringtree.init(timeout_s=60)\ncomm.barrier()\n"
        "if comm.rank == 2:\n    os.kill(os.getpid(), signal.SIGKILL)\ncomm.all_reduce(numpy.ones(5))\n"
    )
    assert run([str(file)], 3) == 128 + 9
    lines = capsys.readouterr().err.splitlines()
    for rank in (0, 1):
        assert any(line.startswith(f"[{rank}] ") and "PeerDied: rank 2" in line for line in lines), lines
    assert lines[-1].startswith("ringtree run: rank 2 was killed by SIGKILL; after that rank ")


def test_patience_comes_from_the_caller_then_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert patience(None) == 300
    monkeypatch.setenv("RINGTREE_TIMEOUT", "12.5")
    assert patience(None) == 12.5
    assert patience(3) == 3
    with pytest.raises(ValueError, match="timeout_s is 0; expected a positive number of seconds"):
        patience(0)
    monkeypatch.setenv("RINGTREE_TIMEOUT", "soon")
    with pytest.raises(ValueError, match="RINGTREE_TIMEOUT is 'soon'"):
        patience(None)
