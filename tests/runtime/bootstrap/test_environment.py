"""Rank and size from every launcher's variables, set by hand and, where a launcher is installed, by it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from ringtree import init
from ringtree.runtime.bootstrap.environment import World, detect, secret_bytes
from ringtree.runtime.engines.engine import native_module

RINGTREE = {"RINGTREE_RANK": "1", "RINGTREE_WORLD_SIZE": "4", "RINGTREE_JOB": "j"}
TORCHRUN = {
    "RANK": "2",
    "WORLD_SIZE": "4",
    "LOCAL_WORLD_SIZE": "4",
    "MASTER_ADDR": "localhost",
    "MASTER_PORT": "29500",
    "TORCHELASTIC_RUN_ID": "none",
    "TORCHELASTIC_RESTART_COUNT": "1",
}
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "0",
    "OMPI_COMM_WORLD_SIZE": "2",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
    "PMIX_NAMESPACE": "prterun-host-12@1",
}
HYDRA = {"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALNRANKS": "2", "PMI_FD": "9"}
SRUN = {"SLURM_PROCID": "3", "SLURM_STEP_ID": "0", "SLURM_JOB_ID": "77", "SLURM_NTASKS": "4", "SLURM_NNODES": "1"}


@pytest.mark.parametrize(
    ("env", "world"),
    [
        (RINGTREE, World(1, 4, 4, "j", "ringtree run")),
        (TORCHRUN, World(2, 4, 4, "localhost/29500/none/1", "torchrun")),
        (OPEN_MPI, World(0, 2, 2, "prterun-host-12@1", "Open MPI")),
        (SRUN, World(3, 4, 4, "77.0", "srun")),
    ],
)
def test_each_launcher_is_understood(env: Mapping[str, str], world: World) -> None:
    assert detect(env) == world


def test_hydra_names_no_job_so_the_parent_stands_for_it() -> None:
    world = detect(HYDRA)
    assert (world.rank, world.size, world.launcher) == (1, 2, "MPICH")
    assert world.job == detect({**HYDRA, "PMI_RANK": "0"}).job
    assert str(os.getppid()) in world.job


def test_nobody_started_us_means_a_world_of_one() -> None:
    world = detect({})
    assert (world.rank, world.size) == (0, 1)


def test_the_inner_launcher_is_asked_first() -> None:
    assert detect({**SRUN, **OPEN_MPI, **TORCHRUN, **RINGTREE}).launcher == "ringtree run"
    assert detect({**SRUN, **OPEN_MPI, **TORCHRUN}).launcher == "torchrun"
    assert detect({**SRUN, **OPEN_MPI}).launcher == "Open MPI"


def test_a_batch_script_is_one_process_though_slurm_numbers_it() -> None:
    assert detect({"SLURM_PROCID": "0", "SLURM_NTASKS": "4", "SLURM_JOB_ID": "7"}).size == 1


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        (
            {**TORCHRUN, "LOCAL_WORLD_SIZE": "2"},
            "2 of them on this host; set RINGTREE_ADDRESS=host:port",
        ),
        ({**OPEN_MPI, "OMPI_COMM_WORLD_LOCAL_SIZE": "1"}, "Open MPI started 2 ranks, 1 of them"),
        ({**HYDRA, "MPI_LOCALNRANKS": "1"}, "MPICH started 2 ranks, 1 of them"),
        ({**SRUN, "SLURM_NNODES": "2", "SLURM_TASKS_PER_NODE": "2(x2)"}, "srun started 4 ranks, 2 of them"),
        ({**RINGTREE, "RINGTREE_RANK": "4"}, "RINGTREE_RANK and RINGTREE_WORLD_SIZE set rank 4 of 4"),
        ({**RINGTREE, "RINGTREE_WORLD_SIZE": "0"}, "expected at least 1 rank"),
        ({**RINGTREE, "RINGTREE_RANK": "one"}, "RINGTREE_RANK is 'one'"),
        ({"RINGTREE_RANK": "0"}, "RINGTREE_WORLD_SIZE is not set"),
        ({**RINGTREE, "RINGTREE_WORLD_SIZE": "4097"}, "RINGTREE_WORLD_SIZE is '4097'; expected 1 to 4096"),
        ({**TORCHRUN, "WORLD_SIZE": "100000000000"}, "^WORLD_SIZE is '100000000000'; expected 1 to 4096"),
        ({**OPEN_MPI, "OMPI_COMM_WORLD_SIZE": "1" * 20}, "OMPI_COMM_WORLD_SIZE is '1{20}'; expected 1 to 4096"),
        ({**HYDRA, "PMI_SIZE": "5000"}, "PMI_SIZE is '5000'; expected 1 to 4096"),
        ({**SRUN, "SLURM_NTASKS": "5000"}, "SLURM_NTASKS is '5000'; expected 1 to 4096"),
        ({**RINGTREE, "RINGTREE_RANK": "9" * 5000}, "RINGTREE_RANK is '9{40}...'; expected a whole number"),
        ({**SRUN, "SLURM_NNODES": "x"}, "SLURM_NNODES is 'x'; expected a whole number"),
        ({**SRUN, "SLURM_NNODES": "2", "SLURM_TASKS_PER_NODE": "x"}, "SLURM_TASKS_PER_NODE is 'x'; expected numbers"),
        ({**SRUN, "SLURM_NNODES": "2", "SLURM_TASKS_PER_NODE": ""}, "SLURM_TASKS_PER_NODE is ''; expected numbers"),
    ],
)
def test_contradictory_environments_are_refused(env: Mapping[str, str], expected: str) -> None:
    with pytest.raises(ValueError, match=expected.replace("(", r"\(")):
        detect(env)


@pytest.mark.parametrize(
    ("env", "name"), [(RINGTREE, "RINGTREE_JOB"), (TORCHRUN, "MASTER_ADDR"), (OPEN_MPI, "PMIX_NAMESPACE")]
)
def test_a_jobs_name_may_have_any_bytes(env: Mapping[str, str], name: str) -> None:
    """As os.environ gives them; the name goes into keys as UTF-8."""
    assert detect({**env, name: "a\udcffb"}).job.startswith("a\\xffb")


def test_a_secret_may_have_any_bytes() -> None:
    assert secret_bytes("a\udcffb") == b"a\xffb" and secret_bytes(None) == b""


def launcher(peer: str, program: str) -> str:
    """Where the launcher is: below $RINGTREE_PEERS, else on PATH (where it is known by its name alone)."""
    peers = os.environ.get("RINGTREE_PEERS")
    if peers is not None:
        found = Path(peers) / peer / "bin" / program
        if found.exists():
            return str(found)
    on_path = shutil.which(program)
    if on_path is None:
        pytest.skip(f"no {program} of {peer}: set RINGTREE_PEERS or PATH")
    version = subprocess.run([on_path, "--version"], capture_output=True, text=True).stdout
    if {"openmpi": "Open MPI", "mpich": "HYDRA"}.get(peer, "") not in version:
        pytest.skip(f"the {program} on PATH is not {peer}'s: set RINGTREE_PEERS")
    return on_path


PROGRAM = """
import os
import numpy as np, ringtree
comm = ringtree.init(timeout_s=60)
again = ringtree.init(timeout_s=60)
total = comm.all_reduce(np.array([comm.rank + 1])), again.all_reduce(np.array([10]))
line = ["rank", comm.rank, "of", comm.size, "total", *map(int, np.concatenate(total))]
os.write(1, (" ".join(map(str, line)) + "\\n").encode())  # in one write, or the launcher may mix two ranks' lines
"""


@pytest.mark.parametrize(
    ("peer", "program", "words"),
    [
        ("openmpi", "mpiexec", ["--allow-run-as-root", "--oversubscribe", "-n", "3"]),
        ("mpich", "mpiexec", ["-n", "3"]),
        ("gloo", "torchrun", ["--nproc-per-node", "3", "--master-port", "0", "--no-python"]),
    ],
)
def test_ranks_started_by_others_meet(peer: str, program: str, words: list[str], tmp_path: Path) -> None:
    pytest.importorskip("ringtree._native")
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    command = [launcher(peer, program), *words, sys.executable, str(file)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    for rank in range(3):
        assert f"rank {rank} of 3 total 6 30" in done.stdout


def test_a_native_module_of_another_version_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    native = pytest.importorskip("ringtree._native")
    assert native_module() is native
    monkeypatch.setattr(native, "INTERFACE", "0123456789ab")
    with pytest.raises(RuntimeError, match="was built for another version of the Python beside it: pip install"):
        init()


@pytest.mark.parametrize("job", ["", "a job's name"])
def test_ranks_behind_shells_of_their_own_need_a_name_for_their_job(job: str, tmp_path: Path) -> None:
    """Where the launcher gives none: then each rank's parent is another process."""
    pytest.importorskip("ringtree._native")
    (tmp_path / "meets.py").write_text("import ringtree\nprint(ringtree.init().size)\n")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("RINGTREE_", "RANK", "OMPI"))}
    named = {"RINGTREE_JOB": f"{job} {tmp_path}"} if job else {}
    shells = [
        subprocess.Popen(
            ["sh", "-c", f"{sys.executable} {tmp_path / 'meets.py'}; true"],
            env=kept | named | {"PMI_RANK": str(rank), "PMI_SIZE": "2", "RINGTREE_TIMEOUT": "60" if job else "1"},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        for rank in range(2)
    ]  # fmt: skip
    for rank, shell in enumerate(shells):
        text = shell.communicate()[0]
        if job:
            assert text == "2\n"
        else:
            assert f"rank {1 - rank} did not come" in text and "set RINGTREE_JOB alike for all ranks" in text
