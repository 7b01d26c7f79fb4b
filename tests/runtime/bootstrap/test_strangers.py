"""Connections without the secret, by the hundred: a rank's descriptors and its time stay its own."""

from __future__ import annotations

import os
import resource
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from threading import Event

import pytest

from ringtree.runtime.bootstrap.bootstrap import BootstrapGroup
from ringtree.runtime.bootstrap.network.acceptor import STRANGERS
from ringtree.runtime.bootstrap.network.addresses import listen
from ringtree.runtime.bootstrap.network.connection import HELLO_BYTES, Busy, Connection, proof
from ringtree.runtime.bootstrap.network.contact import GivenAddress
from ringtree.runtime.bootstrap.network.post import AWAY, Addressee, dial, post
from ringtree.runtime.bootstrap.network.rendezvous import Rendezvous
from ringtree.runtime.bootstrap.network.server import RendezvousServer
from tests.waiting import until

SECRET = b"a secret"
MANY = 3 * STRANGERS


@pytest.fixture
def server() -> Iterator[tuple[str, int]]:
    """The address of a rank 0 whose job has one rank."""
    listener = listen("127.0.0.1", 0)
    made = RendezvousServer(listener, SECRET, 1)
    yield listener.getsockname()[:2]
    made.close()


@contextmanager
def strangers(address: tuple[str, int], count: int) -> Iterator[list[socket.socket]]:
    """So many connections that say nothing, the last of which has been taken in."""
    with ExitStack() as stack:
        made = [stack.enter_context(socket.create_connection(address, 5)) for _ in range(count)]
        made[-1].recv(1)
        yield made


def soon(holds: Callable[[], bool]) -> bool:
    """Whether it holds within a second, before the server and the post drop who has proved nothing."""
    until_s = time.monotonic() + 1.0
    while not holds() and time.monotonic() < until_s:
        time.sleep(0.01)
    return holds()


def open_now() -> int:
    return len(os.listdir("/proc/self/fd"))


def meets(address: tuple[str, int]) -> None:
    """A rank comes, and meets itself."""
    came = Rendezvous(GivenAddress(address, SECRET), 0, 1, 10.0)
    assert came.exchange(BootstrapGroup("k", 0, ("0",), "a test", 5.0), "here") == ["here"]
    came.leave()


def test_silent_strangers_take_no_more_than_their_share_of_rank_0s_descriptors(server: tuple[str, int]) -> None:
    before = open_now()
    with strangers(server, MANY):
        assert soon(lambda: open_now() <= before + MANY + 1 + STRANGERS)  # the strangers' ends are this process's, too
        meets(server)
    until(lambda: open_now() <= before + 1)


def test_the_post_of_a_process_keeps_few_strangers_and_serves_its_job() -> None:
    office = post()
    office.know("strangers", partial(proof, SECRET), office)
    before = open_now()
    with strangers(("127.0.0.1", office.port), MANY):
        assert soon(lambda: open_now() <= before + MANY + STRANGERS)
        connection = dial(Addressee(("127.0.0.1", office.port), "strangers", partial(proof, SECRET)))
        connection.send({"key": "a"})
        assert connection.whole(10.0) == {"state": AWAY}
        connection.wire.close()


def test_who_had_to_make_room_hears_it_and_a_rank_comes_again(server: tuple[str, int]) -> None:
    with socket.create_connection(server, 5) as first:
        waiting = Connection(first)
        assert "nonce" in waiting.whole(10.0)
        with strangers(server, MANY), pytest.raises(Busy, match=r"too many connections without a proof|reset|Broken"):
            waiting.answer({"nonce": "late"}, 10.0)


def test_who_sends_a_message_in_drops_is_not_waited_for_beyond_the_timeout() -> None:
    """Each receive is in time, and the message never whole."""

    def drip(listener: socket.socket, over: Event) -> None:
        with suppress(OSError):
            wire, _ = listener.accept()
            wire.sendall((HELLO_BYTES).to_bytes(4, "little"))
            while not over.wait(0.1):
                wire.sendall(b" ")

    over = Event()
    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor() as threads:
        threads.submit(drip, listener, over)
        try:
            with pytest.raises(TimeoutError, match=r"no whole message came within 0\.5 s|timed out"):
                Connection(socket.create_connection(listener.getsockname(), 5)).whole(0.5)
        finally:
            over.set()


def test_without_a_descriptor_left_rank_0_waits_and_serves_again(server: tuple[str, int]) -> None:
    """Its listener is readable all the time; a thread that asked it without a pause would take a processor."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as held:
        coming = [held.enter_context(socket.socket()) for _ in range(5)]
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (open_now() + 20, before[1]))
            with suppress(OSError):
                while True:
                    held.callback(os.close, os.dup(0))
            for each in coming:
                each.connect(server)
            began, began_s = time.process_time(), time.monotonic()
            time.sleep(1.0)
            share = (time.process_time() - began) / (time.monotonic() - began_s)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
        assert share < 0.05
        meets(server)
