"""The exchange of small values between the ranks of several hosts: at a server in rank 0's process, over TCP.

The server listens at RINGTREE_ADDRESS as long as rank 0 lives. A rank that connects and the server prove to each other
that they know the job's secret (RINGTREE_SECRET), by an HMAC over a nonce of each side, before either reads anything
else. Then a message is JSON behind its length in four bytes. A meeting of some ranks is complete when the last one has
sent its value; its key is a text that they derive alike.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import hmac
import json
import os
import secrets
import selectors
import socket
import struct
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ringtree.runtime.bootstrap.bootstrap import BootstrapGroup

MOST_BYTES = 1 << 26
"""A longer message is refused unread."""
HELLO_BYTES = 1 << 10
"""The longest message before a rank has proved who it is."""
PROVE_S = 5.0
"""Seconds that a connection may take to prove that it knows the secret."""
MIN_RTT_AT = 148
"""The offset of tcpi_min_rtt, in microseconds, in Linux's struct tcp_info."""
CHECK_S = 0.1
RETRY_S = 0.05


def proof(secret: bytes, *parts: str) -> bytes:
    """32 bytes that only who knows the secret can make of these parts."""
    return hmac.digest(secret, "\0".join(parts).encode(), hashlib.sha256)


@dataclass(eq=False)
class _Meeting:
    """`waiting`: (rank, connection, when it gives up)."""

    names: list[str]
    subject: str
    values: dict[int, Any] = field(default_factory=dict)
    builds: dict[int, str] = field(default_factory=dict)
    waiting: list[tuple[int, _Connection, float]] = field(default_factory=list)


class _Connection:
    """A socket that carries messages: JSON behind its length."""

    def __init__(self, wire: socket.socket, most_bytes: int = HELLO_BYTES) -> None:
        self.wire, self.most_bytes = wire, most_bytes
        self.proved = False
        self.nonce = secrets.token_hex(16)
        self.accepted_s = time.monotonic()
        self._unread = bytearray()

    def send(self, message: dict[str, Any]) -> None:
        text = json.dumps(message).encode()
        self.wire.sendall(struct.pack("<I", len(text)) + text)

    def receive(self) -> dict[str, Any] | None:
        """The next message; None until it is whole. ConnectionError at the end, and for what is no message."""
        with contextlib.suppress(BlockingIOError):
            got = self.wire.recv(1 << 16)
            if not got:
                raise ConnectionError("the connection was closed")
            self._unread += got
        return self.next()

    def next(self) -> dict[str, Any] | None:
        """A message that has come with an earlier one."""
        if len(self._unread) < 4:
            return None
        (nbytes,) = struct.unpack_from("<I", self._unread)
        if nbytes > self.most_bytes:
            raise ConnectionError(f"a message of {nbytes} bytes")
        if len(self._unread) < 4 + nbytes:
            return None
        text = bytes(self._unread[4 : 4 + nbytes])
        del self._unread[: 4 + nbytes]
        try:
            message = json.loads(text)
        except (ValueError, RecursionError):
            raise ConnectionError("what is no message") from None
        if not isinstance(message, dict):
            raise ConnectionError("what is no message")
        return message


class RendezvousServer:
    """Rank 0's: collects the values of each meeting and sends them to its members. A thread of its own serves."""

    def __init__(self, listener: socket.socket, secret: bytes, size: int) -> None:
        self.job = secrets.token_hex(8)
        self._listener, self._secret, self._size = listener, secret, size
        self._meetings: dict[str, _Meeting] = {}
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ)
        listener.setblocking(False)
        self._stopping = False
        threading.Thread(target=self._serve, name="ringtree rendezvous", daemon=True).start()

    def close(self) -> None:
        """Ends the service, and frees its address."""
        self._stopping = True
        self._listener.close()

    def _serve(self) -> None:
        while not self._stopping:
            for key, _ in self._selector.select(CHECK_S):
                if key.data is None:
                    self._accept()
                else:
                    self._hear(key.data)
            now = time.monotonic()
            for key in list(self._selector.get_map().values()):
                if key.data is not None and not key.data.proved and now > key.data.accepted_s + PROVE_S:
                    self._drop(key.data)
            for name in [name for name, m in self._meetings.items() if any(now > late for _, _, late in m.waiting)]:
                self._give_up(name)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            wire, _ = self._listener.accept()
            wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection = _Connection(wire)
            self._selector.register(wire, selectors.EVENT_READ, connection)
            self._answer(connection, {"nonce": connection.nonce})

    def _hear(self, connection: _Connection) -> None:
        try:
            message = connection.receive()
            while message is not None:
                if connection.proved:
                    self._meet(connection, message)
                else:
                    self._admit(connection, message)
                message = connection.next()
        except Exception:  # noqa: BLE001  # whatever a stranger sends, or a rank that ended: the others are served
            self._drop(connection)

    def _admit(self, connection: _Connection, hello: dict[str, Any]) -> None:
        expected = proof(self._secret, "rank", connection.nonce, hello["nonce"])
        if not hmac.compare_digest(expected.hex(), hello["proof"]):
            connection.send({"refused": "the secret is another than rank 0's: set RINGTREE_SECRET alike for all ranks"})
            raise ConnectionError("a wrong secret")
        connection.proved, connection.most_bytes = True, MOST_BYTES
        answer = proof(self._secret, "server", hello["nonce"], connection.nonce).hex()
        connection.send({"proof": answer, "job": self.job, "size": self._size})

    def _meet(self, connection: _Connection, request: dict[str, Any]) -> None:
        rank, names, subject = request["rank"], request["names"], request["subject"]
        if not 0 <= rank < len(names):
            raise ValueError(f"rank {rank} of {len(names)}")
        meeting = self._meetings.setdefault(request["key"], _Meeting(names, subject))
        if meeting.names != names or meeting.subject != subject:
            why = f"ranks disagree: rank {names[rank]} came for {subject}, others for {meeting.subject}"
            return self._refuse(connection, why, "RuntimeError")
        if rank in meeting.values:
            return self._refuse(connection, f"two processes are rank {names[rank]} of {subject}", "RuntimeError")
        meeting.values[rank], meeting.builds[rank] = request["value"], request["build"]
        meeting.waiting.append((rank, connection, time.monotonic() + request["timeout_s"]))
        if len(meeting.values) < len(names):
            return None
        del self._meetings[request["key"]]
        builds = sorted({(build, names[r]) for r, build in meeting.builds.items()}, key=lambda pair: pair[1])
        if len({build for build, _ in builds}) > 1:
            why = ", ".join(f"rank {name} has {build or 'no name'}" for build, name in builds[:4])
            for _, other, _ in meeting.waiting:
                self._refuse(other, f"ranks run different builds of ringtree: {why}", "RuntimeError")
            return None
        values = [meeting.values[r] for r in range(len(names))]
        for _, other, _ in meeting.waiting:
            self._answer(other, {"values": values})
        return None

    def _give_up(self, name: str) -> None:
        meeting = self._meetings.pop(name)
        absent = [r for r in range(len(meeting.names)) if r not in meeting.values]
        for _, connection, _ in meeting.waiting:
            self._answer(connection, {"absent": absent})

    def _refuse(self, connection: _Connection, why: str, kind: str) -> None:
        self._answer(connection, {"refused": why, "kind": kind})

    def _answer(self, connection: _Connection, message: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):
            connection.send(message)

    def _drop(self, connection: _Connection) -> None:
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(connection.wire)
        connection.wire.close()
        for meeting in self._meetings.values():
            for rank in [r for r, other, _ in meeting.waiting if other is connection]:
                del meeting.values[rank]
            meeting.waiting = [entry for entry in meeting.waiting if entry[1] is not connection]


class Rendezvous:
    """A rank's way to the server. Several threads may meet at once: each has a connection of its own meanwhile."""

    def __init__(self, address: tuple[str, int], secret: bytes, rank: int, size: int, timeout_s: float) -> None:
        self._address, self._secret, self._rank, self._size = address, secret, rank, size
        self._idle: list[_Connection] = []
        self._lock = threading.Lock()
        self.job = ""
        first = self._connect(timeout_s)
        self.here: str = first.wire.getsockname()[0]
        """This host's address on the way to rank 0."""
        self._idle.append(first)

    def round_trip_s(self) -> float:
        """The least time that the kernel has seen a message of this rank's take to rank 0's host and back; 0 where it
        does not know."""
        info = self._idle[0].wire.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, MIN_RTT_AT + 4)
        return struct.unpack_from("<I", info, MIN_RTT_AT)[0] / 1e6 if len(info) == MIN_RTT_AT + 4 else 0.0

    def exchange(self, group: BootstrapGroup, value: Any = None) -> list[Any]:
        """Each member's value, as Bootstrap.exchange."""
        request = {
            "key": group.key,
            "rank": group.rank,
            "names": list(group.names),
            "subject": group.subject,
            "value": value,
            "build": group.build,
            "timeout_s": group.timeout_s,
        }
        with self._connection(group.timeout_s) as connection:
            connection.send(request)
            answer = self._await(connection, group)
        if "absent" in answer:
            raise group.missing(answer["absent"])
        if "refused" in answer:
            raise RuntimeError(answer["refused"])
        values: list[Any] = answer["values"]
        return values

    def _await(self, connection: _Connection, group: BootstrapGroup) -> dict[str, Any]:
        late_s = time.monotonic() + group.timeout_s + 1.0  # the server gives up first, and names who is missing
        connection.wire.settimeout(CHECK_S)
        answer = connection.next()
        while answer is None:
            try:
                answer = connection.receive()
            except TimeoutError:
                group.check([])
                if time.monotonic() > late_s:
                    raise TimeoutError(f"rank 0 did not answer for {group.subject}") from None
            except OSError:
                group.check([])
                raise RuntimeError(f"rank 0 ended while {group.subject} was being set up") from None
        return answer

    @contextlib.contextmanager
    def _connection(self, timeout_s: float) -> Iterator[_Connection]:
        with self._lock:
            connection = self._idle.pop() if self._idle else None
        connection = connection or self._connect(timeout_s)
        try:
            yield connection
        except BaseException:
            connection.wire.close()
            raise
        with self._lock:
            self._idle.append(connection)

    def _connect(self, timeout_s: float) -> _Connection:
        host, port = self._address
        late_s = time.monotonic() + timeout_s
        while True:
            try:
                wire = socket.create_connection((host, port), timeout=max(late_s - time.monotonic(), 0.1))
                break
            except OSError as error:
                if isinstance(error, socket.gaierror) or time.monotonic() > late_s:
                    raise TimeoutError(
                        f"rank {self._rank} did not reach rank 0 at RINGTREE_ADDRESS={host}:{port} within "
                        f"{timeout_s:g} s ({error}): is rank 0 running, and is that its address on this network?"
                    ) from None
                time.sleep(RETRY_S)
        wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        wire.settimeout(PROVE_S)
        connection = _Connection(wire)
        try:
            self._prove(connection)
        except (OSError, KeyError, TypeError) as error:
            connection.wire.close()
            raise RuntimeError(
                f"rank {self._rank}: who listens at RINGTREE_ADDRESS={host}:{port} is no rank 0 of ringtree ({error})"
            ) from None
        return connection

    def _prove(self, connection: _Connection) -> None:
        theirs = self._whole(connection)["nonce"]
        connection.send(
            {"nonce": connection.nonce, "proof": proof(self._secret, "rank", theirs, connection.nonce).hex()}
        )
        answer = self._whole(connection)
        if "refused" in answer:
            raise RuntimeError(f"rank {self._rank}: {answer['refused']}")
        expected = proof(self._secret, "server", connection.nonce, theirs).hex()
        if not hmac.compare_digest(expected, answer["proof"]):
            raise RuntimeError(
                f"rank {self._rank}: rank 0's secret is another: set RINGTREE_SECRET alike for all ranks"
            )
        if answer["size"] != self._size:
            raise RuntimeError(f"rank {self._rank} has {self._size} ranks in its job, rank 0 has {answer['size']}")
        self.job, connection.most_bytes = answer["job"], MOST_BYTES

    def _whole(self, connection: _Connection) -> dict[str, Any]:
        message = connection.next()
        while message is None:
            message = connection.receive()
        return message


def listen(host: str, port: int) -> socket.socket:
    """A listening socket at that address of this host; at all addresses where it is none of this host's own (behind a
    translation of addresses). RuntimeError names RINGTREE_ADDRESS."""
    cannot = f"rank 0 cannot listen at RINGTREE_ADDRESS={host}:{port}"
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
    except socket.gaierror as error:
        raise RuntimeError(f"{cannot} ({error}); expected an address of this host") from None
    for where in (host, ""):
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((where, port))
            listener.listen(1024)
            return listener
        except OSError as error:
            listener.close()
            if error.errno != errno.EADDRNOTAVAIL or where == "":
                raise RuntimeError(f"{cannot} ({error}); expected a free port of this host") from None
    raise AssertionError("one of the two was returned or refused")


def same_kernel() -> str:
    """A text that processes of different machines do not share; those of one machine need not be one host."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except OSError:
        return os.uname().nodename
