"""Hosts and ranks that vanish, stop or are strangers: every survivor gets an error that names who, and nobody hangs."""

from __future__ import annotations

import os
import resource
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from ringtree.errors import Mismatch, PeerDied, Poisoned
from ringtree.runtime.communicator.communicator import Communicator
from tests.runtime.hosts.conftest import HostCrew, Layout, Ranks, made_lab, survivors
from tests.runtime.hosts.lab import Lab
from tests.waiting import Event, until

LAYOUT: Layout = (2, 1, 1)
VICTIM = 3
"""The rank, alone on host 2, that something happens to."""


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """Hosts that no other test's ranks are on: their links are cut."""
    yield from made_lab()


CALLS: dict[str, Callable[[Communicator], object]] = {
    "all_reduce": lambda c: c.all_reduce(np.ones(100_000, np.float32)),
    "all_gather": lambda c: c.all_gather(np.ones(10_000, np.float32)),
    "reduce_scatter": lambda c: c.reduce_scatter(np.ones(c.size * 10_000, np.float32)),
    "all_to_all": lambda c: c.all_to_all(np.ones(c.size * 10_000, np.float32)),
    "broadcast and reduce": lambda c: c.reduce(c.broadcast(np.ones(100_000, np.float32), VICTIM), root=0),
    "barrier": lambda c: c.barrier(),
    "messages": lambda c: c.sendrecv(np.ones(50_000), (c.rank + 1) % c.size, np.empty(50_000), (c.rank - 1) % c.size),
}


def calls_without_end(folder: Path, call: Callable[[Communicator], object]) -> Callable[[Communicator], list[str]]:
    """Calls until one raises: [type, message, seconds since the fault]. The fault begins when every rank is at it."""

    def rank(comm: Communicator) -> list[str]:
        for number in range(1_000_000):
            try:
                call(comm)
            except Exception as error:  # noqa: BLE001  # the test looks at it
                return [type(error).__name__, str(error), f"{time.time():.3f}"]
            if number == 3:
                (folder / f"{comm.rank}").touch()
        return ["none", "", ""]

    return rank


def under_way(crew: HostCrew, folder: Path) -> None:
    until(lambda: len(list(folder.iterdir())) == len(crew.pids) or crew.any_ended())
    assert not crew.any_ended(), survivors(crew.finish())


@pytest.mark.parametrize("name", list(CALLS))
def test_a_rank_that_is_killed_is_named_to_all(ranks: Ranks, wire: str, tmp_path: Path, name: str) -> None:
    crew = ranks(LAYOUT, calls_without_end(tmp_path, CALLS[name]), wires=[wire])
    under_way(crew, tmp_path)
    os.kill(crew.pids[VICTIM], signal.SIGKILL)
    found = survivors(crew.finish())
    assert sorted(found) == [0, 1, 2]
    for kind, message, _ in found.values():
        assert kind == PeerDied.__name__ and f"rank {VICTIM}" in message, message


def test_a_receive_from_anyone_ends_by_a_rank_that_never_called(ranks: Ranks, wire: str, tmp_path: Path) -> None:
    """No connection to it was ever made, so its end closes none."""

    def rank(comm: Communicator) -> list[str]:
        (tmp_path / f"{comm.rank}").touch()
        if comm.rank == VICTIM:
            Event().wait()
        try:
            comm.recv(np.empty(1))
        except Exception as error:  # noqa: BLE001
            return [type(error).__name__, str(error)]
        return ["none", ""]

    crew = ranks(LAYOUT, rank, wires=[wire])
    under_way(crew, tmp_path)
    os.kill(crew.pids[VICTIM], signal.SIGKILL)
    found = survivors(crew.finish())
    assert sorted(found) == [0, 1, 2]
    for kind, message in found.values():
        assert kind == PeerDied.__name__ and f"rank {VICTIM}" in message, message


@pytest.fixture
def cut(lab: Lab) -> Iterator[Callable[[int], None]]:
    """Takes hosts' links down until the end of the test."""
    hosts: list[int] = []

    def down(host: int) -> None:
        hosts.append(host)
        lab.link(host, "down")

    yield down
    for host in hosts:
        lab.link(host, "up")


@pytest.mark.parametrize(
    ("wire", "name"),
    [
        ("tcp", "all_reduce"),
        ("tcp", "broadcast and reduce"),
        ("tcp", "messages"),
        ("ucx", "all_reduce"),
        pytest.param("ucx", "broadcast and reduce", marks=pytest.mark.slow),
        pytest.param("ucx", "messages", marks=pytest.mark.slow),
    ],
    indirect=["wire"],
)
def test_a_host_that_is_cut_off_is_named_to_all(
    ranks: Ranks, wire: str, tmp_path: Path, cut: Callable[[int], None], name: str
) -> None:
    crew = ranks(LAYOUT, calls_without_end(tmp_path, CALLS[name]), wires=[wire])
    under_way(crew, tmp_path)
    cut(2)
    found = survivors(crew.finish())
    assert sorted(found) == [0, 1, 2, 3]
    for rank in (0, 1, 2):
        kind, message, _ = found[rank]
        assert kind == PeerDied.__name__ and f"rank {VICTIM} is out of reach (it " in message, message
    assert found[VICTIM][0] == PeerDied.__name__, found[VICTIM]


def test_a_host_that_stands_still_is_named_to_all(ranks: Ranks, wire: str, tmp_path: Path) -> None:
    crew = ranks(LAYOUT, calls_without_end(tmp_path, CALLS["all_reduce"]), wires=[wire])
    under_way(crew, tmp_path)
    os.kill(crew.pids[VICTIM], signal.SIGSTOP)
    try:
        found = survivors(crew.finish(awaited=3))
    finally:
        os.kill(crew.pids[VICTIM], signal.SIGCONT)
    for rank in (0, 1, 2):
        kind, message, _ = found[rank]
        assert kind == PeerDied.__name__ and f"rank {VICTIM} is out of reach (it " in message, message
    crew.finish()


def test_a_failure_reaches_hosts_that_did_nothing_wrong(ranks: Ranks, wire: str) -> None:
    def rank(comm: Communicator) -> list[str]:
        try:
            if comm.rank == VICTIM:
                comm.abort("enough")
            comm.barrier()
            comm.barrier()
        except Exception as error:  # noqa: BLE001
            return [type(error).__name__, str(error)]
        return ["none", ""]

    for kind, message in survivors(ranks(LAYOUT, rank, wires=[wire]).finish()).values():
        assert kind == Poisoned.__name__ and f"rank {VICTIM} aborted the group: enough" in message, message


def test_a_rank_without_descriptors_fails_for_those_it_is_connected_to(ranks: Ranks, tmp_path: Path) -> None:
    """Rank 1 is the first of its host, and rank 0 cannot connect to it; the others hear of that by what there is."""
    full = Event()

    def rank(comm: Communicator) -> list[str]:
        x = np.empty(1)
        if comm.rank == 0:
            comm.sendrecv(x, 2, x, 2)
            comm.sendrecv(x, 3, x, 3)
            soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
            full.set()
        elif comm.rank > 1:
            comm.sendrecv(x, 0, x, 0)
        full.wait()  # what waits gets in touch, and rank 0 would accept that
        try:
            comm.recv(x, 1 if comm.rank == 0 else 0)
        except Exception as error:  # noqa: BLE001
            if comm.rank == 0:  # its group stays open until all have heard
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
                until(lambda: len(list(tmp_path.iterdir())) == comm.size - 1)
            else:
                (tmp_path / f"{comm.rank}").touch()
            return [type(error).__name__, str(error)]
        return ["none", ""]

    found = survivors(ranks((1, 2, 1), rank, wires=["tcp"]).finish())
    assert sorted(found) == [0, 1, 2, 3]
    for kind, message in found.values():
        assert kind == Poisoned.__name__ and "rank 0 failed to move messages" in message, message


def test_strangers_at_the_ports_disturb_nobody(ranks: Ranks, wire: str, lab: Lab, tmp_path: Path) -> None:
    """Somebody connects to every port of rank 0's host and talks, or says nothing."""

    def rank(comm: Communicator) -> list[str]:
        comm.all_reduce(np.ones(10))
        if comm.rank == VICTIM:
            with open("/proc/net/tcp") as table:
                peers = {line.split()[2] for line in list(table)[1:]}
            address = lab.address(0)
            for port in sorted({int(p.split(":")[1], 16) for p in peers} - {0}):
                for noise in (b"", b"GET / HTTP/1.1\r\n\r\n" * 20, bytes(4096), b"\xff" * 4096):
                    try:
                        with socket.create_connection((address, port), timeout=1) as stranger:
                            stranger.sendall(noise)
                    except OSError:
                        continue
        total = comm.all_reduce(np.ones(100_000))
        return [str(total[0])]

    assert set(map(tuple, survivors(ranks(LAYOUT, rank, wires=[wire]).finish()).values())) == {("4.0",)}


def test_silent_strangers_take_few_descriptors_of_a_rank(ranks: Ranks, lab: Lab) -> None:
    """They hold hundreds of connections to each port of rank 0's host that the ranks use, and send nothing."""
    each = 300

    def rank(comm: Communicator) -> list[int]:
        comm.all_to_all(np.ones(4 * comm.size))
        before, held = len(os.listdir("/proc/self/fd")), []
        comm.barrier()
        if comm.rank == VICTIM:
            with open("/proc/net/tcp") as table:
                peers = [line.split()[2].split(":") for line in list(table)[1:]]
            address = lab.address(0)
            host = socket.inet_aton(address)[::-1].hex().upper()
            for port in sorted({int(port, 16) for there, port in peers if there == host}):
                for _ in range(each):
                    with suppress(OSError):
                        held.append(socket.create_connection((address, port), timeout=1))
        comm.barrier()
        time.sleep(0.3)
        comm.all_reduce(np.ones(10_000))
        comm.barrier()
        taken = len(os.listdir("/proc/self/fd")) - before
        comm.barrier()
        for each_one in held:
            each_one.close()
        return [int(comm.all_reduce(np.ones(100_000))[0]), taken, len(held)]

    found = survivors(ranks(LAYOUT, rank, wires=["tcp"]).finish())
    assert {total for total, *_ in found.values()} == {4}
    assert found[VICTIM][2] >= each, found
    assert found[0][1] < each, found


def test_a_wrong_secret_is_refused(lab: Lab, ranks: Ranks) -> None:
    outcomes = ranks((1, 1), lambda comm: None, secrets=[b"one", b"another"], timeout_s=2).finish()
    stories = dict(outcomes)
    assert "secret" in stories[1].story and "RINGTREE_SECRET" in stories[1].story
    assert "rank 1 did not come" in stories[0].story


@pytest.mark.parametrize("odd", [0, VICTIM])
def test_another_call_on_another_host_is_named_on_all(ranks: Ranks, wire: str, odd: int) -> None:
    """Also where the two calls have no message in common."""

    def rank(comm: Communicator) -> list[str]:
        try:
            (comm.all_gather if comm.rank == odd else comm.all_reduce)(np.ones(8))
            comm.barrier()
        except Exception as error:  # noqa: BLE001
            return [type(error).__name__, str(error)]
        return ["none", ""]

    for kind, message in survivors(ranks(LAYOUT, rank, wires=[wire]).finish()).values():
        assert kind == Mismatch.__name__, (kind, message)
        assert "all_gather" in message and "all_reduce" in message and f"rank {odd}" in message


def test_a_call_more_on_another_host_is_named(ranks: Ranks, wire: str) -> None:
    """Of no elements, so that no message of it comes; all the others are alike."""

    def rank(comm: Communicator) -> list[str]:
        try:
            for count in [1, 0, 1, 1] if comm.rank == 0 else [1, 1, 1]:
                comm.all_reduce(np.ones(count))
        except Exception as error:  # noqa: BLE001
            return [type(error).__name__, str(error)]
        return ["none", ""]

    for kind, message in survivors(ranks((1, 1), rank, wires=[wire]).finish()).values():
        assert kind == Mismatch.__name__, (kind, message)
        assert "count 0" in message or "made a call that the other did not make" in message, message
