"""A connection between a rank and rank 0's server: a proof of the job's secret, then messages.

A message is JSON behind its length in four bytes. Before either side reads anything else of the other, both prove that
they know the secret, by an HMAC over a nonce of each side. These first messages are alike in all versions of ringtree:
so one can refuse another by name.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import secrets
import socket
import struct
import time
import weakref
from collections import deque
from typing import Any

from ringtree.runtime.linux import after_fork_in_child, of_kernel, readable

PROTOCOL = 3
"""The version of the messages behind the proof."""
MOST_BYTES = 1 << 26
"""A longer message is refused unread."""
HELLO_BYTES = 1 << 10
"""The same before a rank has proved who it is."""
SEND_S = 5.0
"""Seconds that a message may wait for a peer that does not read."""
BUSY = {"busy": True}
"""The last message of a connection that had to make room for others: a rank tries again."""

_open: weakref.WeakSet[Any] = weakref.WeakSet()
"""The sockets that a forked child closes: its copies would keep connections open that this process ends."""


def proof(secret: bytes, *parts: str) -> bytes:
    """32 bytes that only who knows the secret can make of these parts."""
    return hmac.digest(secret, "\0".join(parts).encode(), hashlib.sha256)


def other_size(name: str, theirs: object, first: str, ours: object) -> str:
    """The contradiction of a rank that was started with another number of ranks than the first."""
    remedy = "set RINGTREE_WORLD_SIZE, or the launcher's number of ranks, alike for all"
    return f"rank {name} has {theirs} ranks in its job, rank {first} has {ours}: {remedy}"


def closed_in_children(made: Any) -> None:
    """Closes `made` in every forked child."""
    _open.add(made)


def _after_fork_in_child() -> None:
    for made in list(_open):
        with contextlib.suppress(OSError):
            made.close()
    _open.clear()


after_fork_in_child(_after_fork_in_child)


KEPT_ALIVE = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 30),
)
"""Between two groups' making these connections carry nothing, for hours: a firewall would forget them in minutes."""


class Busy(OSError):
    """The other side had no room for this connection."""


class Broken(ConnectionError):
    """The connection has ended, or what came is no message."""


class Late(TimeoutError):
    """No whole message came in time."""


def of_wire(error: BaseException) -> bool:
    """Whether a connection has failed, and no signal's handler has raised the error amid its use."""
    return of_kernel(error) or isinstance(error, (Broken, Busy, Late))


class Connection:
    """A socket that carries messages. `rank` and `generation` are the peer's, as it claims them behind its proof."""

    def __init__(self, wire: socket.socket, most_bytes: int = HELLO_BYTES) -> None:
        self.wire, self.most_bytes = wire, most_bytes
        self.proved = False
        self.rank, self.generation = -1, 0
        self.nonce = secrets.token_hex(16)
        self.accepted_s = time.monotonic()
        self._unread = bytearray()
        self._put_back: deque[dict[str, Any]] = deque()
        wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", int(SEND_S), 0))
        for level, option, value in KEPT_ALIVE:
            wire.setsockopt(level, option, value)
        closed_in_children(wire)

    def send(self, message: dict[str, Any]) -> None:
        """OSError where the peer is gone, or does not read."""
        text = json.dumps(message).encode()
        self.wire.sendall(struct.pack("<I", len(text)) + text)

    def receive(self) -> dict[str, Any] | None:
        """The next message; None until it is whole. ConnectionError at the end, and for what is no message."""
        with contextlib.suppress(BlockingIOError):
            got = self.wire.recv(1 << 16)
            if not got:
                raise Broken("the connection was closed")
            self._unread += got
        return self.next()

    def within(self, most_s: float) -> dict[str, Any] | None:
        """The next message; None where no more of it comes in that time, or it is not whole yet."""
        return self.next() or (self.receive() if readable(self.wire, most_s) else None)

    def whole(self, most_s: float) -> dict[str, Any]:
        """The next message, when it is whole. TimeoutError: it was not after `most_s` seconds, however it came."""
        until_s, message = time.monotonic() + most_s, self.next()
        while message is None:
            if (left_s := until_s - time.monotonic()) <= 0:
                raise Late(f"no whole message came within {most_s:.3g} s")
            message = self.within(left_s)
        return message

    def answer(self, hello: dict[str, Any], most_s: float) -> dict[str, Any]:
        """The other side's answer to a hello with this side's proof. Busy: it had no room, and the connection ends."""
        try:
            self.send(hello)
            message, why = self.whole(most_s), "too many connections without a proof are open there"
        except (ConnectionResetError, BrokenPipeError) as error:  # it closed before it had read the hello
            if not of_kernel(error):
                raise
            message, why = BUSY, str(error)
        if message == BUSY:
            self.wire.close()
            raise Busy(why)
        return message

    def put_back(self, message: dict[str, Any]) -> None:
        """Makes a message that was read the next one again."""
        self._put_back.append(message)

    def next(self) -> dict[str, Any] | None:
        """A message that has come with an earlier one."""
        if self._put_back:
            return self._put_back.popleft()
        if len(self._unread) < 4:
            return None
        (nbytes,) = struct.unpack_from("<I", self._unread)
        if nbytes > self.most_bytes:
            raise Broken(f"a message of {nbytes} bytes")
        if len(self._unread) < 4 + nbytes:
            return None
        text = bytes(self._unread[4 : 4 + nbytes])
        del self._unread[: 4 + nbytes]
        try:
            message = json.loads(text)
        except (ValueError, RecursionError):
            raise Broken("bytes that are no message") from None
        if not isinstance(message, dict):
            raise Broken("bytes that are no message")
        return message

    def leave(self) -> None:
        """Closes the connection of a process that lives on."""
        with contextlib.suppress(OSError):
            self.send({"leave": True})
        self.wire.close()

    def peer(self) -> str:
        """The numeric address at the other end."""
        try:
            return str(self.wire.getpeername()[0]).removeprefix("::ffff:")
        except OSError:
            return "unknown"
