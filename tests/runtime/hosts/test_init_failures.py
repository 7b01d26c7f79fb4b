"""A rank that fails while the ranks meet: the others raise its name and its reason instead of waiting."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import ringtree
from ringtree.runtime.bootstrap.local import abstract_socket
from ringtree.runtime.bootstrap.network import connection, rendezvous, server
from ringtree.runtime.bootstrap.network.hosts import MultiHostBootstrap
from ringtree.runtime.engines.engine import native_module
from tests.runtime.hosts.conftest import host_of
from tests.runtime.hosts.lab import Lab
from tests.runtime.hosts.started import PATIENCE_S, Started, joined, variables_of
from tests.waiting import until

LAYOUT = (2, 1)
Faulty = Callable[[int, Callable[[], str]], list[str]]


@pytest.fixture
def faulty(lab: Lab, ports: Iterator[int], started: Started) -> Iterator[Callable[..., list[str]]]:
    """faulty(2, task, SIZE=5): what became of each rank of LAYOUT, of which rank 2 has a task and variables of its
    own."""

    def run(victim: int, task: Callable[[], str], **variables: object) -> list[str]:
        port = next(ports)
        for rank, host in enumerate(host_of(LAYOUT)):
            own = variables if rank == victim else {}
            of_rank = variables_of(lab, port, rank, sum(LAYOUT)) | own
            started.start(task if rank == victim else joined, lab, host, **of_rank)
        return started.finish()

    yield run


def dies() -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def dies_once_it_has_connected() -> str:
    """Rank 0 once all have."""

    def found(hosts: MultiHostBootstrap, *_: object) -> None:
        until(lambda: hosts._server is None or len(hosts._server._processes) == sum(LAYOUT))
        dies()

    MultiHostBootstrap.find = found  # type: ignore[method-assign]
    return joined()


def dies_before_it_shares_memory() -> str:
    abstract_socket.AbstractSocket.share = lambda *_: dies()  # type: ignore[method-assign]
    return joined()


def dies_when_it_has_the_memory() -> str:
    MultiHostBootstrap.listener = lambda *_: dies()  # type: ignore[method-assign]
    return joined()


def has_no_memory() -> str:
    def fails(*_: object) -> Any:
        raise MemoryError("no room for 7 bytes")

    abstract_socket.AbstractSocket.share = fails  # type: ignore[method-assign]
    return joined()


def fails_at_the_end() -> str:
    native_module().Group = lambda *_, **__: 1 / 0
    return joined()


def has_no_engine() -> str:
    return joined(engine="none such")


def speaks_another_protocol() -> str:
    connection.PROTOCOL = rendezvous.PROTOCOL = server.PROTOCOL = 99
    return joined()


def has_another_version() -> str:
    ringtree.__version__ = "0.0.1"
    return joined()


def runs_another_build() -> str:
    native_module().BUILD = "cafe"
    return joined()


ENDED = "PeerDied: rank {0} ended while the "
FAILED = "RuntimeError: rank {0} failed while the job of 3 ranks was being set up: "
FAULTS: dict[Callable[[], str], str] = {
    dies_once_it_has_connected: ENDED,
    dies_before_it_shares_memory: ENDED,
    dies_when_it_has_the_memory: ENDED,
    has_no_memory: FAILED + "MemoryError: no room for 7 bytes",
    fails_at_the_end: FAILED + "ZeroDivisionError: division by zero",
    has_no_engine: FAILED + "ValueError: no engine 'none such'",
}


@pytest.mark.parametrize("victim", [0, 1, 2])
@pytest.mark.parametrize("fault", list(FAULTS), ids=lambda fault: fault.__name__)
def test_all_raise_which_rank_failed_and_why(
    faulty: Callable[..., list[str]], fault: Callable[[], str], victim: int
) -> None:
    found = faulty(victim, fault)
    own = found.pop(victim)
    for text in found:
        assert text.startswith(FAULTS[fault].format(victim)), found
    assert own == "ended" if FAULTS[fault] == ENDED else own in found[0], own


@pytest.mark.parametrize(
    ("task", "variables", "expected"),
    [
        (joined, {"WORLD_SIZE": 5}, "rank 2 has 5 ranks in its job, rank 0 has 3"),
        (joined, {"RANK": 1}, "two processes claim to be rank 1"),
        (speaks_another_protocol, {}, "rank 2 speaks version 99 of the rendezvous, rank 0 version 3: start every"),
        (has_another_version, {}, "rank 2 has ringtree 0.0.1, rank 0 has "),
        (runs_another_build, {}, "ranks run different builds of ringtree: rank 0 has "),
    ],
    ids=["size", "rank", "protocol", "version", "build"],
)
def test_a_rank_that_contradicts_the_others_ends_the_job(
    faulty: Callable[..., list[str]], task: Callable[[], str], variables: dict[str, object], expected: str
) -> None:
    found = faulty(2, task, **variables)
    assert all(expected.split(": rank 0")[0] in text and text.startswith("RuntimeError") for text in found), found


def test_a_rank_that_dies_is_missed_though_its_child_lives(
    lab: Lab, ports: Iterator[int], started: Started, tmp_path: Path
) -> None:
    """The child has copies of all that its parent had open."""

    def dies_with_a_child() -> str:
        def found(*_: object) -> None:
            if os.fork() == 0:
                until((tmp_path / "done").exists)
                os._exit(0)
            dies()

        MultiHostBootstrap.find = found  # type: ignore[method-assign]
        return joined()

    port = next(ports)
    for rank, host in enumerate(host_of(LAYOUT)):
        task = dies_with_a_child if rank == 2 else joined
        started.start(task, lab, host, **variables_of(lab, port, rank, sum(LAYOUT)))
    found = started.finish(0, 1)
    (tmp_path / "done").touch()
    assert all(text.startswith("PeerDied: rank 2 ended while") for text in found), found


def test_strangers_with_another_secret_end_nothing(lab: Lab, ports: Iterator[int], started: Started) -> None:
    """Though they claim to be ranks of the job, and come first."""
    port, size = next(ports), sum(LAYOUT)
    first = started.start(joined, lab, 0, **variables_of(lab, port, 0, size))
    strangers = [
        started.start(joined, lab, 1, **variables_of(lab, port, rank, size) | {"SECRET": "another"}) for rank in (1, 2)
    ]
    for rank, text in enumerate(started.finish(*strangers), 1):
        assert text.startswith(f"RuntimeError: rank {rank}: the secret is another than rank 0's"), text
    others = [
        started.start(joined, lab, host, **variables_of(lab, port, rank, size)) for rank, host in ((1, 0), (2, 1))
    ]
    expected = [f"rank {rank} of 3 hosts (0, 0, 1) total 6" for rank in range(3)]
    assert started.finish(first, *others) == expected


def test_a_refused_secret_is_named_to_those_who_wait(lab: Lab, ports: Iterator[int], started: Started) -> None:
    def briefly() -> str:
        return str(ringtree.init(timeout_s=1.5).size)

    port = next(ports)
    for rank, secret in enumerate(("one", "another")):
        started.start(briefly, lab, rank, **variables_of(lab, port, rank, 2) | {"SECRET": secret})
    waited = started.finish()[0]
    assert "rank 1 did not come" in waited and f"a process on {lab.address(1)} came with another secret" in waited


def second_world_without_rank_2() -> str:
    with ringtree.init(timeout_s=PATIENCE_S) as first:
        try:
            ringtree.init(timeout_s=PATIENCE_S, engine="none such" if first.rank == 2 else None)
        except (RuntimeError, ValueError) as error:
            first.barrier()  # the first world goes on
            return str(error)
    return "made"


def test_a_later_world_fails_alone(lab: Lab, ports: Iterator[int], started: Started) -> None:
    port = next(ports)
    for rank, host in enumerate(host_of(LAYOUT)):
        started.start(second_world_without_rank_2, lab, host, **variables_of(lab, port, rank, sum(LAYOUT)))
    found = started.finish()
    why = "no engine 'none such'"
    for text in found[:2]:
        assert text.startswith("rank 2 failed while the job of 3 ranks was being set up") and why in text, found
    assert found[2].startswith(why)


def test_a_rank_that_came_too_late_meets_the_others_at_their_next_attempt(
    lab: Lab, ports: Iterator[int], started: Started, tmp_path: Path
) -> None:
    def twice() -> str:
        with pytest.raises(TimeoutError, match="rank 2 did not come"):
            ringtree.init(timeout_s=1.5)
        (tmp_path / os.environ["RINGTREE_RANK"]).touch()
        return joined()

    def late() -> str:
        until(lambda: len([*tmp_path.iterdir()]) == 2)
        return joined()

    port = next(ports)
    for rank, host in enumerate(host_of(LAYOUT)):
        started.start(late if rank == 2 else twice, lab, host, **variables_of(lab, port, rank, sum(LAYOUT)))
    assert started.finish_within(20.0) == [f"rank {rank} of 3 hosts (0, 0, 1) total 6" for rank in range(3)]
