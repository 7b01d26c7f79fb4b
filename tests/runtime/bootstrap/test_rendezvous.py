"""The rendezvous of several hosts, over loopback: values, who is missing, secrets, strangers."""

from __future__ import annotations

import gc
import os
import socket
import struct
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest

import ringtree
from ringtree.errors import PeerDied
from ringtree.runtime.bootstrap.bootstrap import BootstrapGroup
from ringtree.runtime.bootstrap.environment import rendezvous_address
from ringtree.runtime.bootstrap.network.addresses import listen
from ringtree.runtime.bootstrap.network.connection import Connection, proof
from ringtree.runtime.bootstrap.network.contact import GivenAddress
from ringtree.runtime.bootstrap.network.hosts import MultiHostBootstrap
from ringtree.runtime.bootstrap.network.rendezvous import Rendezvous
from ringtree.runtime.bootstrap.network.server import RendezvousServer
from tests.waiting import until

SECRET = b"a secret"


@pytest.fixture
def served() -> tuple[RendezvousServer, tuple[str, int]]:
    listener = listen("127.0.0.1", 0)
    address = listener.getsockname()[:2]
    return RendezvousServer(listener, SECRET, 3), address


def group(rank: int, key: str = "k", size: int = 3, subject: str = "a test", timeout_s: float = 5.0) -> BootstrapGroup:
    return BootstrapGroup(key, rank, tuple(map(str, range(size))), subject, timeout_s)


def together(*acts: Callable[[], Any]) -> list[Any]:
    with ThreadPoolExecutor(len(acts)) as pool:
        futures = [pool.submit(act) for act in acts]
        return [f.exception() or f.result() for f in futures]


def client(address: tuple[str, int], rank: int, secret: bytes = SECRET, size: int = 3) -> Rendezvous:
    return Rendezvous(GivenAddress(address, secret), rank, size, 5.0)


def test_every_rank_gets_every_value(served: tuple[RendezvousServer, tuple[str, int]]) -> None:
    clients = [client(served[1], rank) for rank in range(3)]
    assert {c.job for c in clients} == {served[0].job}
    for turn in range(3):
        found = together(*(lambda r=r, t=turn: clients[r].exchange(group(r), {"rank": r, "turn": t}) for r in range(3)))
        assert found == [[{"rank": r, "turn": turn} for r in range(3)]] * 3


def test_one_that_ends_after_all_have_met_fails_nobody(served: tuple[RendezvousServer, tuple[str, int]]) -> None:
    """Rank 0 sees the end of rank 1 before it reads the answer that both have."""
    clients = [client(served[1], rank) for rank in range(2)]

    def check(absent: list[int]) -> None:
        clients[1].exchange(group(1, size=2), "one")
        raise PeerDied("rank 1 died", 1)

    assert clients[0].exchange(group(0, size=2)._replace(check_liveness=check), "zero") == ["zero", "one"]


def test_one_who_does_not_come_is_named(served: tuple[RendezvousServer, tuple[str, int]]) -> None:
    clients = [client(served[1], rank) for rank in range(2)]
    found = together(*(lambda r=r: clients[r].exchange(group(r, timeout_s=0.5), r) for r in range(2)))
    for error in found:
        assert str(error).startswith("rank 2 did not come to a test within 0.5 s; ranks on other hosts do not reach")


def test_a_server_that_is_closed_keeps_no_descriptor() -> None:
    """Without the garbage collector's help."""
    before = set(os.listdir("/proc/self/fd"))
    gc.disable()
    try:
        for _ in range(3):
            RendezvousServer(listen("127.0.0.1", 0), SECRET, 3).close()
        until(lambda: set(os.listdir("/proc/self/fd")) <= before)
    finally:
        gc.enable()


class SlowServer(RendezvousServer):
    """Has little of a core to itself."""

    def _answer(self, connection: Connection, message: dict[str, Any]) -> None:
        super()._answer(connection, message)
        time.sleep(0.1)


def test_the_rank_that_serves_ends_after_the_others_have_their_answer() -> None:
    """Its own answer ends its process, and the service with it; it was the first to come."""
    listener = listen("127.0.0.1", 0)
    address = listener.getsockname()[:2]
    size = 6
    if (process := os.fork()) == 0:
        SlowServer(listener, SECRET, size)
        with suppress(TimeoutError):
            client(address, 0, size=size).exchange(group(0, size=size, timeout_s=2.0))
        os._exit(0)
    listener.close()
    clients = [client(address, rank, size=size) for rank in range(1, size - 1)]
    found = together(*(lambda c=c, r=r: c.exchange(group(r, size=size)) for r, c in enumerate(clients, 1)))
    os.waitpid(process, 0)
    assert all(str(error).startswith("rank 5 did not come to a test within 5 s") for error in found), found


def test_ranks_that_contradict_each_other_are_refused(served: tuple[RendezvousServer, tuple[str, int]]) -> None:
    clients = [client(served[1], rank) for rank in range(2)]
    found = together(
        lambda: clients[0].exchange(group(0, "x", timeout_s=1.0), 0),
        lambda: clients[1].exchange(group(1, "x", subject="another", timeout_s=1.0), 0),
    )
    assert any("ranks disagree" in str(e) for e in found)
    twice = together(*(lambda c=c: c.exchange(group(1, "y", timeout_s=1.0), 0) for c in clients))
    assert any("two processes are rank 1" in str(e) for e in twice)


def test_another_secret_or_size_is_refused(served: tuple[RendezvousServer, tuple[str, int]]) -> None:
    with pytest.raises(RuntimeError, match="RINGTREE_SECRET"):
        client(served[1], 1, b"another")
    with pytest.raises(RuntimeError, match="rank 1 has 5 ranks in its job, rank 0 has 3"):
        client(served[1], 1, size=5)


def test_a_second_process_of_a_rank_ends_nothing_once_all_have_met(
    served: tuple[RendezvousServer, tuple[str, int]],
) -> None:
    clients = [client(served[1], rank) for rank in range(3)]

    def sets_up(rank: int) -> None:
        with clients[rank].setting_up(group(rank, "world")):
            pass

    assert together(*(lambda r=r: sets_up(r) for r in range(3))) == [None] * 3
    with pytest.raises(TimeoutError, match="two processes claim to be rank 1"):
        Rendezvous(GivenAddress(served[1], SECRET), 1, 3, 0.3)
    found = together(*(lambda r=r: clients[r].exchange(group(r, "later"), r) for r in range(3)))
    assert found == [[0, 1, 2]] * 3


def test_a_build_before_versions_is_refused_by_name(served: tuple[RendezvousServer, tuple[str, int]]) -> None:
    with socket.create_connection(served[1], timeout=5) as wire:
        old = Connection(wire)
        theirs = old.whole(10.0)["nonce"]
        old.send({"nonce": old.nonce, "proof": proof(SECRET, "rank", theirs, old.nonce).hex()})
        assert "rank unknown speaks version 0 of the rendezvous, rank 0 version 3" in old.whole(10.0)["refused"]


def test_rank_0_names_an_address_that_is_none_of_its_host() -> None:
    with listen("127.0.0.1", 0) as free:
        port = free.getsockname()[1]
    where = r"RINGTREE_ADDRESS=192.0.2.1:\d+ within 0.2 s .*: 192.0.2.1 is no address of this host, where rank 0 runs"
    with pytest.raises(TimeoutError, match=where):
        MultiHostBootstrap(GivenAddress(("192.0.2.1", port), SECRET), 0, 2, 0.2)


def test_another_version_is_refused_by_name(
    served: tuple[RendezvousServer, tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ringtree, "__version__", "0.0.1")
    with pytest.raises(RuntimeError, match=r"rank 1 has ringtree 0.0.1, rank 0 has \S+: start every rank from"):
        client(served[1], 1)


def test_connections_that_carry_nothing_are_kept_alive(served: tuple[RendezvousServer, tuple[str, int]]) -> None:
    wire = client(served[1], 0)._idle[0].wire
    assert wire.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
    assert wire.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) < 60  # where the kernel has it, two hours


def test_a_meeting_fails_with_a_member_that_ended(served: tuple[RendezvousServer, tuple[str, int]]) -> None:
    """Also outside of a setup, and whether it had come to the meeting or not."""
    clients = [client(served[1], rank) for rank in range(3)]
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(clients[0].exchange, group(0, timeout_s=60.0), 0)
        clients[2]._idle[0].wire.close()
        with pytest.raises(PeerDied, match="rank 2 ended while a test was being set up") as ended:
            waiting.result()
    assert ended.value.rank == 2
    with pytest.raises(PeerDied, match="rank 2 ended"):
        clients[1].exchange(group(1, timeout_s=60.0), 0)


@pytest.mark.parametrize(
    "noise",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        struct.pack("<I", 1 << 31),
        struct.pack("<I", 4) + b"null",
        b"\0" * 5000,
        b"\xff" * 64,
        struct.pack("<I", 1020) + b"[" * 1020,
    ],
)
def test_strangers_are_dropped_and_disturb_nobody(
    served: tuple[RendezvousServer, tuple[str, int]], noise: bytes
) -> None:
    with socket.create_connection(served[1], timeout=5) as stranger:
        stranger.sendall(noise)
        with pytest.raises(ConnectionError):  # after the nonce, nothing but the end
            while True:
                if not stranger.recv(4096):
                    raise ConnectionResetError
    alone = BootstrapGroup("alone", 0, ("0",), "a test", 5.0)
    assert client(served[1], 0).exchange(alone, "here") == ["here"]


def test_a_rank_that_reaches_nobody_names_the_address() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    with pytest.raises(TimeoutError, match=f"rank 2 did not reach rank 0 at RINGTREE_ADDRESS=127.0.0.1:{port}"):
        Rendezvous(GivenAddress(("127.0.0.1", port), SECRET), 2, 3, 0.3)


def test_an_address_in_use_or_unknown_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(RuntimeError, match=f"RINGTREE_ADDRESS=127.0.0.1:{port} .*expected a free port"):
            listen("127.0.0.1", port)
    with pytest.raises(RuntimeError, match=r"RINGTREE_ADDRESS=no.such.host.invalid:1 .*expected an address"):
        listen("no.such.host.invalid", 1)
    with pytest.raises(RuntimeError, match=r"rank 1 cannot look up .* RINGTREE_ADDRESS=no.such.host.invalid:1 \("):
        Rendezvous(GivenAddress(("no.such.host.invalid", 1), SECRET), 1, 2, 100.0)


def test_another_service_is_no_rank_0() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other, ThreadPoolExecutor(1) as pool:
        pool.submit(lambda: other.accept()[0].sendall(b"SSH-2.0-OpenSSH_9.6\r\n"))
        with pytest.raises(RuntimeError, match="is no rank 0 of ringtree"):
            client(other.getsockname()[:2], 1)


@pytest.mark.parametrize(
    "text",
    [
        *("host", "host:", ":1", "host:port", "host:0", "host:70000", "fd00::1:29400", "file://name"),
        *("host:\u00b2", "host:" + "9" * 5000, "..a..:4000", "x" * 70 + ":4000", "\udcff:4000"),
    ],
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected host:port"):
        rendezvous_address({"RINGTREE_ADDRESS": text})


@pytest.mark.parametrize("host", ["fe80::1%eth0", "FEBF::2", "fe80:0::1"])
def test_an_address_of_one_link_is_refused(host: str) -> None:
    with pytest.raises(
        ValueError, match=r"an address of one link's own, .*; expected another address of rank 0's host"
    ):
        rendezvous_address({"RINGTREE_ADDRESS": f"[{host}]:29400"})


def test_addresses() -> None:
    assert rendezvous_address({"RINGTREE_ADDRESS": "fe80a.cluster:29400"}) == ("fe80a.cluster", 29400)
    assert rendezvous_address({}) is None
    assert rendezvous_address({"RINGTREE_ADDRESS": "10.0.0.1:29400"}) == ("10.0.0.1", 29400)
    assert rendezvous_address({"RINGTREE_ADDRESS": "[fd00::1]:29400"}) == ("fd00::1", 29400)
    assert rendezvous_address({"RINGTREE_ADDRESS": "file:///shared/job"}) == "/shared/job"
