"""Another user's process takes a group's names first, says nothing, floods: the group meets or names it; none hangs."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count

import pytest

from ringtree.runtime.bootstrap.bootstrap import BootstrapGroup
from ringtree.runtime.bootstrap.local import leader, socket_names
from ringtree.runtime.bootstrap.local.abstract_socket import ABSTRACT_SOCKET
from ringtree.runtime.bootstrap.local.socket_names import NAMES, address, doorbell
from tests.runtime.bootstrap.test_abstract_socket import gather, members

NOBODY = 65534
numbers = count()
exchange = ABSTRACT_SOCKET.exchange

as_another_user = pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")

Attack = Callable[[str], None]


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(leader, "GRACE_S", 0.1)
    return f"squatted-{os.getpid()}-{next(numbers)}"


@contextmanager
def attacked(attack: Attack, key: str, user: int = NOBODY) -> Iterator[int]:
    """While a process of that user attacks the group; its number. It has begun when the block does."""
    mine = os.getuid()
    ready, begun = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            if user != mine:
                os.setgroups([])
                os.setgid(user)
                os.setuid(user)
            os.getuid = lambda: mine  # type: ignore[assignment]  # names are of the user attacked
            socket_names.begun = begun  # type: ignore[attr-defined]
            attack(key)
        finally:
            os._exit(0)
    os.close(begun)
    assert os.read(ready, 1) == b"!"
    os.close(ready)
    try:
        yield pid
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def begin() -> None:
    os.write(socket_names.begun, b"!")  # type: ignore[attr-defined]


def held(key: str, names: int, kind: int, backlog: int | None) -> list[socket.socket]:
    sockets = []
    for number in range(names):
        sockets.append(made := socket.socket(socket.AF_UNIX, kind))
        made.bind(address(key, number))
        if backlog is not None:
            made.listen(backlog)
    return sockets


def says_nothing(names: int) -> Attack:
    def attack(key: str) -> None:
        listeners = held(key, names, socket.SOCK_SEQPACKET, 1000)
        begin()
        kept = [listeners[0].accept() for _ in range(10**6)]
        time.sleep(1000 + len(kept))

    return attack


def takes_nobody_in(key: str) -> None:
    """So that a connection to it never is: those that would wait for one have to come again."""
    listeners = held(key, 1, socket.SOCK_SEQPACKET, 0)
    clients = []
    with contextlib.suppress(OSError):
        for _ in range(100):
            clients.append(one := socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
            one.setblocking(False)
            one.connect(address(key))
    begin()
    time.sleep(1000 + len(listeners))


def does_not_listen(key: str) -> None:
    sockets = held(key, 1, socket.SOCK_SEQPACKET, None)
    begin()
    time.sleep(1000 + len(sockets))


def has_another_kind(key: str) -> None:
    sockets = held(key, 1, socket.SOCK_STREAM, 10)
    begin()
    time.sleep(1000 + len(sockets))


def sends_garbage(key: str) -> None:
    (listener,) = held(key, 1, socket.SOCK_SEQPACKET, 100)
    begin()
    while True:
        with contextlib.suppress(OSError):
            listener.accept()[0].send(b"\xff" * 1000)


def closes_at_once(key: str) -> None:
    (listener,) = held(key, 1, socket.SOCK_SEQPACKET, 100)
    begin()
    while True:
        listener.accept()[0].close()


def floods(key: str) -> None:
    """Connects to the leader as fast as it can, and keeps what it gets."""
    begin()
    kept = []
    while True:
        one = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        one.setblocking(False)
        if one.connect_ex(address(key)):
            one.close()
        else:
            kept.append(one)
        if len(kept) > 500:
            kept.clear()


def rings(key: str) -> None:
    """Rings member 1's bell as fast as it can."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ringer:
        begin()
        while True:
            with contextlib.suppress(OSError):
                ringer.sendto(b"open", doorbell(key, 1))


ATTACKS: dict[str, Attack] = {
    "says nothing": says_nothing(1),
    "says nothing at three names": says_nothing(NAMES - 1),
    "takes nobody in": takes_nobody_in,
    "does not listen": does_not_listen,
    "has another kind of socket": has_another_kind,
    "sends garbage": sends_garbage,
    "closes at once": closes_at_once,
    "floods": floods,
    "rings": rings,
}


@as_another_user
@pytest.mark.timeout(60)
@pytest.mark.parametrize("leader_first", [True, False])
@pytest.mark.parametrize("attack", ATTACKS)
def test_a_group_meets_beside_another_users_process(attack: str, leader_first: bool, key: str) -> None:
    def come(rank: int) -> list[object]:
        if (rank == 0) is not leader_first:
            time.sleep(0.2)
        return exchange(members(key, rank, 3, timeout_s=30), rank)

    with attacked(ATTACKS[attack], key):
        began_s = time.monotonic()
        assert gather(*(lambda m=m: come(m) for m in range(3))) == [[0, 1, 2]] * 3
        assert time.monotonic() - began_s < 10


@as_another_user
@pytest.mark.timeout(60)
def test_who_holds_all_names_is_named_at_once(key: str) -> None:
    with attacked(says_nothing(NAMES), key) as pid:
        began_s = time.monotonic()
        leader, member = gather(*(lambda m=m: exchange(members(key, m, 2, timeout_s=50)) for m in range(2)))
        assert time.monotonic() - began_s < 10
    who = f"process {pid} of user {NOBODY} holds 4 of its 4 names"
    assert isinstance(leader, RuntimeError) and isinstance(member, PermissionError)
    assert f"rank 100 has no socket for the test group: {who}" in str(leader)
    assert f"rank 100 cannot be reached for the test group: {who}" in str(member)


@as_another_user
@pytest.mark.timeout(60)
@pytest.mark.parametrize("attack", ["rings", "floods", "says nothing"])
def test_an_attack_does_not_put_off_the_end_of_a_wait(attack: str, key: str) -> None:
    group = members(key, 1, 2, timeout_s=1)
    with attacked(ATTACKS[attack], key) as pid:
        began_s = time.monotonic()
        (error,) = gather(lambda: exchange(group))
        assert time.monotonic() - began_s < 5
    assert isinstance(error, TimeoutError) and "rank 100 did not come to the test group within 1 s" in str(error)
    assert (f"process {pid} of user {NOBODY} holds 1 of its 4 names" in str(error)) is (attack == "says nothing")


@as_another_user
@pytest.mark.timeout(60)
def test_connections_that_were_refused_are_counted_by_user(key: str) -> None:
    with attacked(floods, key):
        (error,) = gather(lambda: exchange(members(key, 0, 2, timeout_s=1)))
    assert isinstance(error, TimeoutError) and f" connections of user {NOBODY}" in str(error)


def connects_and_says_nothing(key: str) -> None:
    begin()
    kept = []
    while len(kept) < 1000:
        one = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        one.setblocking(False)
        if one.connect_ex(address(key)):
            time.sleep(0.001)
        else:
            kept.append(one)
    time.sleep(1000)


@pytest.mark.timeout(60)
def test_nobody_waits_for_a_process_of_this_user_that_says_nothing(key: str) -> None:
    def late() -> list[object]:
        time.sleep(0.5)
        return exchange(members(key, 1, 2, timeout_s=20), 1)

    with attacked(connects_and_says_nothing, key, os.getuid()):
        began_s, open_before = time.monotonic(), len(os.listdir("/proc/self/fd"))
        outcomes = gather(lambda: exchange(members(key, 0, 2, timeout_s=20), 0), late)
        assert outcomes == [[0, 1]] * 2 and time.monotonic() - began_s < 10
        assert len(os.listdir("/proc/self/fd")) <= open_before


@pytest.mark.timeout(60)
def test_two_leaders_are_told_from_a_squatter(key: str) -> None:
    with attacked(says_nothing(1), key, os.getuid()) as pid:
        (error,) = gather(lambda: exchange(members(key, 0, 2, timeout_s=0.3)))
    assert f"two processes claim to be rank 100 of the test group, this one and process {pid}" in str(error)


def test_a_bootstrap_needs_no_low_descriptor(key: str) -> None:
    """A process with more than 1,024 open files, which select.select refuses."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2100:
        pytest.skip(f"at most {hard} open files here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2100), hard))
    opened = [os.open("/dev/null", os.O_RDONLY) for _ in range(1100)]
    try:
        alive: Callable[[list[int]], None] = lambda absent: None  # noqa: E731
        groups: list[BootstrapGroup] = [members(key, m, 2, timeout_s=20)._replace(check_liveness=alive) for m in (1, 0)]
        outcomes = gather(*(lambda g=g: (time.sleep(0.2 * (1 - g.rank)), exchange(g, g.rank))[1] for g in groups))
        assert outcomes == [[0, 1]] * 2
    finally:
        for fd in opened:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
