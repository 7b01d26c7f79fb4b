"""The bootstrap: ranks that come, are missing, or do not belong, and the memory and offers they get."""

from __future__ import annotations

import marshal
import mmap
import os
import socket
import threading
import time
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from ringtree.errors import PeerDied
from ringtree.runtime.bootstrap.bootstrap import BootstrapGroup
from ringtree.runtime.bootstrap.local import leader, socket_messages, socket_names
from ringtree.runtime.bootstrap.local.abstract_socket import ABSTRACT_SOCKET
from ringtree.runtime.bootstrap.local.shared_memory import reserve
from ringtree.runtime.bootstrap.local.socket_names import doorbell
from ringtree.runtime.bootstrap.local.unix_socket import UnixSocket, connectionless
from tests.waiting import Naps

numbers = count()


meet = ABSTRACT_SOCKET.share


def members(key: str, rank: int, size: int, subject: str = "the test group", timeout_s: float = 60) -> BootstrapGroup:
    return BootstrapGroup(key, rank, [str(m + 100) for m in range(size)], subject, timeout_s)


def gather(*tasks: Callable[[], Any]) -> list[Any]:
    """Runs the tasks as threads; what each returned or raised."""
    outcomes: list[Any] = [None] * len(tasks)

    def work(index: int) -> None:
        try:
            outcomes[index] = tasks[index]()
        except Exception as error:  # noqa: BLE001  # the test looks at it
            outcomes[index] = error

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(tasks))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(leader, "GRACE_S", 0.1)  # ranks here come before the leader gives up
    return f"test-{os.getpid()}-{next(numbers)}"


def test_all_get_the_same_zeroed_memory_and_all_offers(key: str) -> None:
    met = gather(*(lambda m=m: meet(members(key, m, 4), 8192, {"from": m}) for m in (2, 0, 3, 1)))
    maps = [mmap.mmap(fd, 8192) for fd, _ in met]
    assert all(offers == [{"from": m} for m in range(4)] for _, offers in met)
    assert maps[0][:] == bytes(8192)
    maps[0][100] = 7
    assert [m[100] for m in maps] == [7, 7, 7, 7]
    for fd, _ in met:
        os.close(fd)


def test_offers_longer_than_a_packet_of_the_kernel(key: str) -> None:
    """Of the members of a large host; a packet has room for some 3,000."""
    offers = [bytes([m]) * 120_000 for m in range(4)]
    for fd, met in gather(*(lambda m=m: meet(members(key, m, 4), 4096, offers[m]) for m in range(4))):
        assert met == offers
        assert os.fstat(fd).st_size == 4096
        os.close(fd)


@pytest.mark.parametrize("parts", [0, 1, 3])
def test_a_leader_that_ends_within_its_answer_is_named(key: str, parts: int) -> None:
    first, *rest = socket_messages.packets({"offers": ["x" * 400_000], "build": ""})
    before = set(os.listdir("/proc/self/fd"))

    def lead() -> None:
        leader = socket_names.listener(key, time.monotonic(), 1)
        assert isinstance(leader, UnixSocket)
        with leader, leader.accept() as member, open("/dev/null") as memory:
            member.recv(4096)
            member.send_with(memory.fileno(), first)
            for part in rest[:parts]:
                member.send(part)

    met, _ = gather(lambda: meet(members(key, 1, 2), 0), lead)
    assert isinstance(met, PeerDied) and str(met) == "rank 100 ended while the test group was being set up"
    assert set(os.listdir("/proc/self/fd")) == before


def test_one_key_serves_several_bootstraps(key: str) -> None:
    for _ in range(20):
        for fd, _offers in gather(*(lambda m=m: meet(members(key, m, 3), 4096) for m in range(3))):
            os.close(fd)


def test_a_world_of_one_meets_itself(key: str) -> None:
    fd, offers = meet(members(key, 0, 1), 4096, "x")
    os.close(fd)
    assert offers == ["x"]


def test_missing_ranks_are_named_to_those_present(key: str) -> None:
    outcomes = gather(*(lambda m=m: meet(members(key, m, 4, timeout_s=0.3), 0) for m in (0, 2)))
    for error in outcomes:
        assert isinstance(error, TimeoutError)
        assert "ranks 101, 103 did not come to the test group within 0.3 s" in str(error)


@pytest.mark.parametrize("builds", [("aaa", "bbb"), ("aaa", "")])
def test_two_builds_share_no_memory_and_both_are_named(key: str, builds: tuple[str, str]) -> None:
    outcomes = gather(*(lambda m=m: meet(members(key, m, 2)._replace(build=builds[m]), 4096) for m in range(2)))
    for error in outcomes:
        assert isinstance(error, RuntimeError)
        assert "rank 101 runs build " + (builds[1] or "unknown") in str(error)
        assert "rank 100 build aaa" in str(error)


def test_a_missing_leader_is_named(key: str) -> None:
    (error,) = gather(lambda: meet(members(key, 1, 2, timeout_s=0.2), 0))
    assert isinstance(error, TimeoutError)
    assert "rank 100 did not come" in str(error)


def test_a_leader_that_stands_still_is_waited_for_once(key: str) -> None:
    """The kernel takes connections for it. This member stays a second longer than the leader would."""
    group = members(key, 1, 2, timeout_s=1.0)._replace(check_liveness=lambda absent: None)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as leader, Naps(lambda: True) as naps:
        leader.bind(socket_names.address(key))
        leader.listen()
        with pytest.raises(TimeoutError, match="rank 100 did not come to the test group within 1 s"):
            meet(group, 0)
    assert naps.count < 2.8 * Naps.A_SECOND


def test_the_same_rank_twice_is_an_error_for_all(key: str) -> None:
    outcomes = gather(*(lambda m=m: meet(members(key, m, 4, timeout_s=2), 0) for m in (0, 1, 1)))
    assert all("two processes claim to be rank 101" in str(e) for e in outcomes)


def test_two_leaders_are_distinguished(key: str) -> None:
    def late() -> object:
        time.sleep(0.2)
        return meet(members(key, 0, 2, timeout_s=0.1), 0)

    first, second = gather(lambda: meet(members(key, 0, 2, timeout_s=1), 0), late)
    assert "rank 101 did not come" in str(first)
    assert "two processes claim to be rank 100" in str(second)


def test_another_size_is_an_error_for_all(key: str) -> None:
    outcomes = gather(lambda: meet(members(key, 0, 3), 0), lambda: meet(members(key, 1, 2), 0))
    assert all("rank 101 expects 2 ranks, rank 100 expects 3" in str(e) for e in outcomes)


def test_another_subject_is_an_error_for_all(key: str) -> None:
    outcomes = gather(
        lambda: meet(members(key, 0, 2, "an array of 3"), 0), lambda: meet(members(key, 1, 2, "an array of 4"), 0)
    )
    assert all("rank 101 came for an array of 4, rank 100 for an array of 3" in str(e) for e in outcomes)


@pytest.mark.parametrize("comes", [("another", 2), ("the test group", 3)])
def test_a_leader_whose_members_have_their_reason_waits_for_none(
    key: str, monkeypatch: pytest.MonkeyPatch, comes: tuple[str, int]
) -> None:
    """Those that expect more ranks, too: each of them comes."""
    monkeypatch.setattr(leader, "GRACE_S", 30.0)
    subject, size = comes
    ranks = [lambda m=m: meet(members(key, m, size, subject), 0) for m in range(1, size)]
    with Naps(lambda: True) as naps:
        outcomes = gather(lambda: meet(members(key, 0, 2), 0), *ranks)
    assert all(isinstance(error, RuntimeError) and "rank 10" in str(error) for error in outcomes)
    assert len(set(map(str, outcomes))) == 1
    assert naps.count < 10 * Naps.A_SECOND


def test_a_member_that_ends_while_waiting_is_named(key: str) -> None:
    def come_and_go() -> None:
        time.sleep(0.05)
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
            connection.connect(socket_names.address(key))
            hello = {"member": 2, "members": 3, "name": "102", "subject": "the test group", "offer": None}
            connection.send(marshal.dumps(hello))
            time.sleep(0.05)

    leader, _ = gather(lambda: meet(members(key, 0, 3), 0), come_and_go)
    assert "rank 102 ended while the test group was being set up" in str(leader)


def test_another_users_process_is_no_member(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(UnixSocket, "peer", lambda connection: (os.getuid() + 1, 7))
    leader, guest = gather(
        lambda: meet(members(key, 0, 2, timeout_s=0.3), 0), lambda: meet(members(key, 1, 2, timeout_s=0.3), 0)
    )
    assert "rank 101 did not come" in str(leader)
    assert f"connections of user {os.getuid() + 1}" in str(leader)
    assert isinstance(guest, TimeoutError) and f"process 7 of user {os.getuid() + 1} holds 1 of its 4 names" in str(
        guest
    )


def test_the_peer_is_read_from_the_kernel() -> None:
    ours, theirs = socket.socketpair()
    with UnixSocket(ours.type, ours.detach()) as connection, theirs:
        assert connection.peer() == (os.getuid(), os.getpid())


@pytest.mark.parametrize("message", [b'{"member": 1}', b"\xff", marshal.dumps("a text")])
def test_a_process_that_says_something_else_is_an_error_for_all(key: str, message: bytes) -> None:
    def come() -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
            while connection.connect_ex(socket_names.address(key)):
                time.sleep(0.01)
            connection.send(message)
            connection.recv(1)

    outcomes = gather(*(lambda m=m: meet(members(key, m, 3, timeout_s=2), 0) for m in (0, 1)), come)
    assert all(
        "a process that is no rank of this version came for the test group" in str(error) for error in outcomes[:2]
    )


def test_lack_of_room_is_reported_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(fd: int, offset: int, length: int) -> None:
        raise OSError(28, "No space left on device")

    before = set(os.listdir("/proc/self/fd"))
    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(MemoryError, match="no room for 123456 bytes of shared memory \\(a test\\)"):
        reserve(123456, "a test")
    assert set(os.listdir("/proc/self/fd")) == before


def test_pages_are_there_before_anyone_writes() -> None:
    fd = reserve(1 << 20, "a test")
    assert os.fstat(fd).st_blocks * 512 >= 1 << 20
    os.close(fd)


def test_nothing_stays_open_after_an_error(key: str) -> None:
    before = len(os.listdir("/proc/self/fd"))
    gather(*(lambda m=m: meet(members(key, m, 4, timeout_s=0.2), 4096) for m in (0, 2)))
    gather(lambda: meet(members(key, 0, 3), 4096), lambda: meet(members(key, 1, 2), 4096))
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_leader_that_dies_ends_the_others_wait(key: str) -> None:
    """Another waits for it, too, so that it has taken this one in and not yet answered."""
    leader = os.fork()
    if leader == 0:
        threading.Timer(0.5, os._exit, [0]).start()
        meet(members(key, 0, 3, timeout_s=60), 0)
    with pytest.raises(RuntimeError, match="rank 100 ended while the test group was being set up"):
        meet(members(key, 1, 3, timeout_s=60), 0)
    os.waitpid(leader, 0)


def test_who_gave_up_waiting_for_the_leader_is_not_missed(key: str) -> None:
    """101 began sooner and gives up first: 102 sees its process end, and names the leader all the same."""
    gave_up = threading.Event()

    def first() -> object:
        try:
            return meet(members(key, 1, 3, timeout_s=0.4), 0)
        finally:
            gave_up.set()

    def check(_: list[int]) -> None:
        if gave_up.is_set():
            raise PeerDied("rank 101 died (process 7 ended) while rank 102 waited for the test group", 1)

    second = members(key, 2, 3, timeout_s=20)._replace(check_liveness=check)
    error = gather(first, lambda: meet(second, 0))[1]
    assert isinstance(error, TimeoutError)
    assert str(error) == "rank 100 did not come to the test group within 20 s (waited for by rank 101)"


def test_who_ended_because_of_another_is_not_blamed(key: str) -> None:
    """101 alone sees 100 end, and 103 is there too late for its word: that comes by 102."""
    waits, gone = [threading.Event() for _ in range(4)], [threading.Event() for _ in range(4)]

    def member(rank: int, seen: int, *awaited: int) -> object:
        def check(_: list[int]) -> None:
            waits[rank].set()
            if all(waits[other].is_set() for other in awaited) and (seen == 0 or gone[seen].is_set()):
                raise PeerDied(f"rank {100 + seen} died (process 7 ended) while rank {100 + rank} waited", seen)

        if rank == 3:
            gone[1].wait()
        try:
            return meet(members(key, rank, 4, timeout_s=20)._replace(check_liveness=check), 0)
        finally:
            gone[rank].set()

    errors = gather(lambda: member(1, 0, 2), lambda: member(2, 1, 3), lambda: member(3, 2))
    assert [type(error) for error in errors] == [PeerDied] * 3 and [error.rank for error in errors] == [0] * 3
    assert [str(error) for error in errors[1:]] == [
        f"rank 100 died while rank {100 + rank} waited for the test group (seen by rank {99 + rank}, which has ended "
        "because of it)"
        for rank in (2, 3)
    ]


def test_a_member_that_died_is_missed_whatever_others_ring(key: str) -> None:
    """Anybody may ring a bell, and leave word for another member."""
    rung = threading.Event()

    def check(_: list[int]) -> None:
        if rung.is_set():
            raise PeerDied("rank 101 died (process 7 ended) while rank 102 waited for the test group", 1)

    def ring() -> None:
        time.sleep(0.1)  # the bell is there by then
        with connectionless() as ringer:
            for word in (b"", b"open", b"gave up 0", b"gave up \xff"):
                ringer.send_at_once(word, doorbell(key, 2))
        rung.set()

    group = members(key, 2, 3, timeout_s=20)._replace(check_liveness=check)
    error = gather(lambda: meet(group, 0), ring)[0]
    assert isinstance(error, PeerDied)
    assert "rank 101 died" in str(error)


def test_a_member_that_gave_up_at_the_leader_is_no_death(key: str) -> None:
    """101 began so much sooner that the leader has not given up by then: both miss 102."""
    error = gather(
        lambda: meet(members(key, 0, 3, timeout_s=20), 0), lambda: meet(members(key, 1, 3, timeout_s=0.2), 0)
    )[0]
    assert isinstance(error, TimeoutError)
    assert str(error) == "rank 102 did not come to the test group within 20 s"


@pytest.mark.parametrize("who", [0, 1])
def test_an_interrupted_member_is_named_as_such(key: str, who: int) -> None:
    def interrupt(absent: list[int]) -> None:
        if absent in ([], [2]):  # they have met
            raise KeyboardInterrupt

    def interrupted() -> object:
        with pytest.raises(KeyboardInterrupt):
            meet(members(key, who, 3)._replace(check_liveness=interrupt), 0)

    error = gather(interrupted, lambda: meet(members(key, 1 - who, 3), 0))[1]
    assert isinstance(error, PeerDied)
    assert str(error) == f"rank {100 + who} was interrupted while the test group was being set up"
    assert error.rank == who
