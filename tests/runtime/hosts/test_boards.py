"""Ranks of several hosts that learn from a file, a store or MPI where rank 0 is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import ringtree
from ringtree.runtime.bootstrap.network.addresses import listen
from ringtree.runtime.bootstrap.network.boards.file_board import FileBoard
from ringtree.runtime.bootstrap.network.contact import Contact
from ringtree.runtime.bootstrap.network.interfaces import candidates
from ringtree.runtime.bootstrap.network.server import RendezvousServer
from tests.runtime.bootstrap.test_environment import launcher
from tests.runtime.hosts.conftest import host_of, made_lab
from tests.runtime.hosts.lab import Lab, missing
from tests.runtime.hosts.started import Started, joined, variables_of
from tests.waiting import until

LAYOUT = (2, 1)
JOINED = [f"rank {rank} of 3 hosts (0, 0, 1) total 6" for rank in range(3)]


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """Host 0 has two more networks, which no other host is in; one leads elsewhere and so is tried first."""
    for made in made_lab():
        for name, address in (("docker0", "172.17.0.1/16"), ("away", "10.1.1.1/24")):
            made.run(0, f"ip link add {name} type bridge; ip addr add {address} dev {name}; ip link set {name} up")
        made.run(0, "ip route add default dev away")
        yield made


def start(started: Started, lab: Lab, task: Callable[[], str] = joined, *ranks: int, **variables: object) -> list[int]:
    """Starts these ranks of LAYOUT, or all, with these variables in place of RINGTREE_SECRET."""
    numbers = []
    for rank in ranks or range(sum(LAYOUT)):
        of_rank = variables_of(lab, 0, rank, sum(LAYOUT)) | variables
        del of_rank["SECRET"]
        numbers.append(started.start(task, lab, host_of(LAYOUT)[rank], **of_rank))
    return numbers


def test_ranks_meet_by_a_file_which_is_gone_then(started: Started, lab: Lab, tmp_path: Path) -> None:
    file = tmp_path / "meet"
    others = start(started, lab, joined, 1, 2, ADDRESS=f"file://{file}")
    first = start(started, lab, joined, 0, ADDRESS=f"file://{file}")
    assert started.finish(*first, *others) == JOINED
    assert not list(tmp_path.iterdir())


def test_jobs_in_one_folder_do_not_meet(started: Started, lab: Lab, tmp_path: Path) -> None:
    for job in ("a", "b"):
        start(started, lab, ADDRESS=f"file://{tmp_path}", JOB=job)
    assert started.finish() == JOINED * 2


def left_behind(tmp_path: Path, addresses: list[str], port: int, job: str = "") -> Path:
    """The file of an earlier job."""
    file = tmp_path / "meet"
    FileBoard(file, job, b"").announce(Contact(tuple(addresses), port, b"of an earlier job"))
    return file


@pytest.mark.parametrize("kind", ["nobody listens", "another job's server", "another service", "torn"])
def test_what_an_earlier_job_left_is_passed_over(started: Started, lab: Lab, tmp_path: Path, kind: str) -> None:
    port = 40000
    file = left_behind(tmp_path, [lab.address(0)], port)
    if kind == "torn":
        file.write_text(file.read_text()[:20])

    def serves() -> str:
        listener = listen(lab.address(0), port)
        if kind == "another service":
            while True:
                with closing(listener.accept()[0]) as connection:
                    connection.sendall(b"SSH-2.0-OpenSSH_9.6\r\n")
        server = RendezvousServer(listener, b"another", 3)
        until(lambda: False)
        return server.job

    if kind.startswith("another"):
        started.start(serves, lab, 0)
    others = start(started, lab, joined, 1, 2, ADDRESS=f"file://{file}", JOB="")
    assert started.finish_within(1.0, *others) == ["waits"] * 2
    first = start(started, lab, joined, 0, ADDRESS=f"file://{file}", JOB="")
    assert started.finish(*first, *others) == JOINED


def test_a_secret_is_needed_beside_the_file(started: Started, lab: Lab, tmp_path: Path) -> None:
    def briefly() -> str:
        return str(ringtree.init(timeout_s=1.5).size)

    for rank, secret in enumerate(("one", "another")):
        variables = variables_of(lab, 0, rank, 2) | {"ADDRESS": f"file://{tmp_path}", "SECRET": secret}
        started.start(briefly, lab, rank, **variables)
    first, second = started.finish()
    assert "rank 1 did not come" in first and "came with another secret" in first
    assert "rank 1 did not reach rank 0" in second and "the secret is another than rank 0's" in second


def test_another_jobs_file_is_not_taken(tmp_path: Path) -> None:
    file = left_behind(tmp_path, ["10.0.0.1"], 1, "a")
    assert FileBoard(file, "b", b"").read(0) is None
    assert FileBoard(file, "a", b"").read(0) == Contact(("10.0.0.1",), 1, b"of an earlier job")


def test_a_file_in_no_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=f"cannot write .* .there is no folder {tmp_path}/none.; expected a folder"):
        left_behind(tmp_path / "none", ["10.0.0.1"], 1)


def test_a_file_is_for_its_user_alone(tmp_path: Path) -> None:
    file = left_behind(tmp_path, ["10.0.0.1"], 1)
    assert file.stat().st_mode & 0o777 == 0o600
    file.chmod(0o644)
    with pytest.raises(RuntimeError, match=f"file://{file} is a file of user .* with mode 644; expected"):
        FileBoard(file, "", b"").read(0)
    if os.getuid() == 0:
        file.chmod(0o600)
        os.chown(file, 1, 1)
        with pytest.raises(RuntimeError, match="is a file of user 1 with mode 600; expected one of user 0"):
            FileBoard(file, "", b"").read(0)


def test_only_its_writer_removes_a_file(tmp_path: Path) -> None:
    boards = [FileBoard(tmp_path / "meet", "", b"") for _ in range(2)]
    for number, board in enumerate(boards):
        board.announce(Contact(("10.0.0.1",), number, b"x"))
    boards[0].withdraw()
    assert boards[0].read(0) == Contact(("10.0.0.1",), 1, b"x")
    boards[1].withdraw()
    assert boards[1].read(0) is None


def test_a_rank_that_reaches_nobody_lists_what_it_tried(started: Started, lab: Lab, tmp_path: Path) -> None:
    def briefly() -> str:
        return str(ringtree.init(timeout_s=0.5).size)

    file = left_behind(tmp_path, [lab.address(0), "10.1.1.1", "fd00:99::77"], 40001)
    (found,) = started.finish(*start(started, lab, briefly, 2, ADDRESS=f"file://{file}", JOB=""))
    assert found.startswith(f"TimeoutError: rank 2 did not reach rank 0 at RINGTREE_ADDRESS=file://{file} within 0.5 s")
    for address in (f"{lab.address(0)}:40001: ", "10.1.1.1:40001: ", "[fd00:99::77]:40001: "):
        assert address in found
    (none,) = started.finish(*start(started, lab, briefly, 2, ADDRESS=f"file://{tmp_path}/none"))
    assert "nothing was announced there" in none


def test_addresses_of_containers_come_last(started: Started, lab: Lab) -> None:
    started.start(lambda: json.dumps(candidates()), lab, 0)
    started.start(lambda: json.dumps(candidates()), lab, 0, INTERFACE="away")
    started.start(lambda: json.dumps(candidates()), lab, 0, INTERFACE="172.17.0.1")
    started.start(lambda: json.dumps(candidates()), lab, 0, INTERFACE="eth7")
    every, away, docker, none = started.finish()
    found = json.loads(every)
    assert (found[0], found[-1]) == ("10.1.1.1", "172.17.0.1") and lab.address(0) in found
    assert not any(address.startswith(("127.", "::1", "fe80")) for address in found)
    assert (json.loads(away), json.loads(docker)) == (["10.1.1.1"], ["172.17.0.1"])
    assert "RINGTREE_INTERFACE is 'eth7'; expected an interface" in none and f"eth0 ({lab.address(0)})" in none


def test_the_loopback_address_is_for_hosts_without_another() -> None:
    if why := missing():
        pytest.skip(why)
    program = "from ringtree.runtime.bootstrap.network.interfaces import candidates; print(candidates())"
    command = ["unshare", "--net", "sh", "-c", f"ip link set lo up; exec {sys.executable} -c '{program}'"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert "127.0.0.1" in done.stdout, done.stderr


MPI_PROGRAM = """
import sys
sys.path.append(sys.argv[1])  # mpi4py's, behind all else
from mpi4py import MPI
import numpy as np, ringtree
comm = ringtree.init(mpi=MPI.COMM_WORLD, timeout_s=60)
total = comm.all_reduce(np.array([comm.rank + 1.0]))[0]
print(f"rank {comm.rank} of {comm.size} as {MPI.COMM_WORLD.Get_rank()} total {total:g}\\n", end="", flush=True)
"""


@pytest.mark.parametrize(
    ("peer", "words"), [("openmpi", ["--allow-run-as-root", "--oversubscribe", "-n", "3"]), ("mpich", ["-n", "3"])]
)
def test_ranks_meet_by_mpi4py(peer: str, words: list[str], tmp_path: Path) -> None:
    mpiexec = Path(launcher(peer, "mpiexec"))
    libraries = mpiexec.parent.parent / "lib"
    packages = libraries / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    if not (packages / "mpi4py").exists():
        pytest.skip(f"no mpi4py beside {mpiexec}")
    (tmp_path / "program.py").write_text(MPI_PROGRAM)
    environment = os.environ | {"LD_LIBRARY_PATH": str(libraries)}
    command = [str(mpiexec), *words, sys.executable, str(tmp_path / "program.py"), str(packages)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    for rank in range(3):
        assert f"rank {rank} of 3 as {rank} total 6" in done.stdout


class FolderStore:
    """A file for each key."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def set(self, key: str, value: str) -> None:
        fresh = self._folder / f"{os.getpid()}"
        fresh.write_text(value)
        fresh.rename(self._folder / key.replace("/", "-"))

    def get(self, key: str) -> str:
        try:
            return (self._folder / key.replace("/", "-")).read_text()
        except OSError:
            raise KeyError(key) from None


def test_ranks_meet_by_any_store(started: Started, lab: Lab, tmp_path: Path) -> None:
    start(started, lab, lambda: joined(store=FolderStore(tmp_path)), ADDRESS="")
    assert started.finish() == JOINED
    assert [file.read_text() for file in tmp_path.iterdir()] == [""]  # no secret stays


@pytest.mark.torch
@pytest.mark.parametrize("kind", ["file", "tcp"])
def test_ranks_meet_by_torchs_stores(
    started: Started, lab: Lab, tmp_path: Path, ports: Iterator[int], kind: str
) -> None:
    from torch import distributed as dist

    port = next(ports)

    def store() -> Any:
        if kind == "file":
            return dist.FileStore(str(tmp_path / "store"), 3)
        return dist.TCPStore(lab.address(0), port, 3, os.environ["RINGTREE_RANK"] == "0", wait_for_workers=False)

    start(started, lab, lambda: joined(store=store()), ADDRESS="")
    assert started.finish() == JOINED
