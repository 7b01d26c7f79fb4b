"""The bootstrap of the processes of one machine: at an abstract unix socket.

The socket's name comes from the user's id and the group's key, and vanishes with the socket: nothing can leak. The
leader collects every member's value and sends all values to every member, with a descriptor of shared memory where the
group asked for one. So the handshake proves that the members are on one machine, and are the same user's. Groups,
sub-groups and symmetric memory use it.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import select
import selectors
import socket
import struct
import time
from typing import Any

from ringtree.errors import Mismatch, PeerDied, Poisoned
from ringtree.ir.digest import sha256
from ringtree.runtime.bootstrap.bootstrap import Abandoned, BootstrapGroup
from ringtree.runtime.bootstrap.shared_memory import reserve

MESSAGE_BYTES = 1 << 18

CHECK_S = 0.1
"""Seconds between two checks of a waiting member whether the others live."""

RETRY_S = 0.02
"""Seconds that a member which came before the leader sleeps, unless the leader rings."""

GRACE_S = 1.0
"""Seconds that a leader which gives up stays to answer later members with the reason."""


RAISED: dict[str, type[Exception]] = {
    "TimeoutError": TimeoutError,
    "MemoryError": MemoryError,
    "Abandoned": Abandoned,
}
"""The exceptions of members where the leader gave up; RuntimeError for every other kind."""


class AbstractSocket:
    """The HostBootstrap of one machine: member 0 leads, and the others come to its socket. Values are
    JSON's."""

    def exchange(self, group: BootstrapGroup, value: Any = None) -> list[Any]:
        """Each member's value; shares no memory."""
        return _meet(group, None, value)[1]

    def share(
        self,
        group: BootstrapGroup,
        nbytes: int,
        value: Any = None,
        reserved: int | None = None,
        needed: int | None = None,
    ) -> tuple[int, list[Any]]:
        """A descriptor of memory that the leader makes, and each member's value."""
        exist = nbytes if reserved is None else reserved
        return _meet(group, (nbytes, exist, exist if needed is None else needed), value)

    def hosts(self, group: BootstrapGroup) -> list[int]:
        """One host."""
        return [0] * group.size


ABSTRACT_SOCKET = AbstractSocket()


def _meet(group: BootstrapGroup, memory: tuple[int, int, int] | None, value: Any) -> tuple[int, list[Any]]:
    """`memory`: how many bytes the leader shares, how many of them exist, and for how many there must be room; None for
    none, and a descriptor of -1."""
    if group.rank == 0:
        return Leader(group).meet(memory, value)
    return Follower(group).meet(value)


def address(key: str) -> str:
    """The socket's name for a key: no other user's, and short for every key."""
    digest = sha256(key.encode()).hexdigest()[:32]
    return f"\0ringtree-{os.getuid()}-{digest}"


def doorbell(key: str, rank: int) -> str:
    """The name of the socket by which the leader wakes a member that came before it."""
    return address(f"{key}, bell {rank}")


class Leader:
    """Takes the other members in until all are here, or one of them cannot be."""

    def __init__(self, group: BootstrapGroup) -> None:
        self._group = group
        self._deadline_s = time.monotonic() + group.timeout_s
        self._connections: dict[int, socket.socket] = {}
        self._values: dict[int, Any] = {}

    def meet(self, memory: tuple[int, int, int] | None, value: Any) -> tuple[int, list[Any]]:
        """Admits every member and sends all of them the values; `memory` as in _meet."""
        group, fd = self._group, -1
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
                self._listen(listener)
                self._ring_doorbells()
                try:
                    if memory is not None:
                        fd = reserve(memory[1], group.subject, memory[0], memory[2])
                    self._admit_all(listener)
                except Exception as error:
                    self._give_up(listener, error)
                    raise
                values = [value, *(self._values[rank] for rank in range(1, group.size))]
                if dead := _send(self._connections, {"offers": values, "build": group.build}, fd):
                    raise RuntimeError(f"{group.named(dead)} ended while {group.subject} was being set up")
            return fd, values
        except BaseException:
            if fd >= 0:
                os.close(fd)
            raise
        finally:
            for connection in self._connections.values():
                connection.close()

    def _listen(self, listener: socket.socket) -> None:
        """Takes the address. Another group of this key that is about to end may still hold it."""
        while True:
            try:
                listener.bind(address(self._group.key))
                listener.listen(self._group.size)
                return
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
                if time.monotonic() > self._deadline_s:
                    raise RuntimeError(
                        f"two processes claim to be {self._group.named([0])} of {self._group.subject}: start each "
                        "rank once, and every job with a key of its own"
                    ) from None
                time.sleep(0.01)

    def _ring_doorbells(self) -> None:
        """Wakes the members that came before the leader. They opened their doorbells first, and then tried the
        leader's address once more: none of them can miss it."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ringer:
            for rank in range(1, self._group.size):
                with contextlib.suppress(OSError):  # that member comes later
                    ringer.sendto(b"open", socket.MSG_DONTWAIT, doorbell(self._group.key, rank))

    def _admit_all(self, listener: socket.socket) -> None:
        group = self._group
        with selectors.DefaultSelector() as selector:
            selector.register(listener, selectors.EVENT_READ)
            while absent := [rank for rank in range(1, group.size) if rank not in self._connections]:
                left_s = self._deadline_s - time.monotonic()
                if left_s <= 0:
                    raise group.missing(absent)
                group.check(absent)
                for key, _ in selector.select(min(left_s, CHECK_S)):
                    if key.fileobj is not listener:
                        raise RuntimeError(f"{group.named([key.data])} ended while {group.subject} was being set up")
                    self._admit(listener, selector)

    def _admit(self, listener: socket.socket, selector: selectors.BaseSelector) -> None:
        connection, _ = listener.accept()
        if _uid(connection) != os.getuid():  # another user's process is no member
            connection.close()
            return
        connection.settimeout(max(self._deadline_s - time.monotonic(), 0.01))
        try:
            message = connection.recv(MESSAGE_BYTES)
        except OSError:
            message = b""
        if not message:
            connection.close()
            return
        hello = json.loads(message)
        if why := self._contradiction(hello):
            _send({0: connection}, {"refused": why, "kind": "RuntimeError"})
            connection.close()
            raise RuntimeError(why)
        rank = hello["member"]
        self._connections[rank], self._values[rank] = connection, hello["offer"]
        selector.register(connection, selectors.EVENT_READ, rank)

    def _contradiction(self, hello: dict[str, Any]) -> str:
        """The contradiction between a member's hello and this group; "" where there is none."""
        group, name, leader = self._group, hello["name"], self._group.named([0])
        if hello["member"] in self._connections or not 0 < hello["member"] < hello["members"]:
            return f"two processes claim to be rank {name} of {group.subject}"
        if hello["members"] != group.size:
            return f"rank {name} expects {hello['members']} ranks, {leader} expects {group.size}, in {group.subject}"
        if hello["subject"] != group.subject:
            return f"ranks disagree: rank {name} came for {hello['subject']}, {leader} for {group.subject}"
        return _other_build(group, hello.get("build", ""), name)

    def _give_up(self, listener: socket.socket, error: Exception) -> None:
        """Sends the reason to the members: those present, and those that come within GRACE_S."""
        refusal = {"refused": str(error), "kind": type(error).__name__}
        _send(self._connections, refusal)
        if isinstance(error, (PeerDied, Mismatch, Poisoned, Abandoned)):  # the others find it themselves, by check()
            return
        self._group.check([])
        absent, until_s = self._group.size - 1 - len(self._connections), time.monotonic() + GRACE_S
        while absent > 0 and (left_s := until_s - time.monotonic()) > 0:
            listener.settimeout(left_s)
            with contextlib.suppress(OSError):
                connection, _ = listener.accept()
                with connection:
                    connection.settimeout(left_s)
                    connection.recv(MESSAGE_BYTES)
                    _send({0: connection}, refusal)
                absent -= 1


class Follower:
    """A member that comes to the leader's socket, and waits for it where it is not there yet."""

    def __init__(self, group: BootstrapGroup) -> None:
        self._group = group
        self._deadline_s = time.monotonic() + group.timeout_s

    def meet(self, value: Any) -> tuple[int, list[Any]]:
        """Sends the leader this member's value and returns the leader's answer."""
        group = self._group
        # all builds, past and future, use these words: that is how a build can refuse another
        hello = {
            "member": group.rank,
            "members": group.size,
            "name": group.names[group.rank],
            "subject": group.subject,
            "offer": value,
            "build": group.build,
        }
        answer, fd = self._answer(json.dumps(hello).encode())
        if "refused" in answer:
            group.check([])  # what made the leader give up, as this member's own error
            raise RAISED.get(answer["kind"], RuntimeError)(answer["refused"])
        if why := _other_build(group, answer.get("build", ""), group.names[0]):
            if fd >= 0:
                os.close(fd)
            raise RuntimeError(why)
        return fd, answer["offers"]

    def _answer(self, hello: bytes) -> tuple[dict[str, Any], int]:
        answer = self._visit(hello)
        if answer is not None:
            return answer
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as bell:
            with contextlib.suppress(OSError):  # another process claims to be this member, and has the doorbell
                bell.bind(doorbell(self._group.key, self._group.rank))
            while (answer := self._visit(hello)) is None:
                self._sleep(bell)
        return answer

    def _visit(self, hello: bytes) -> tuple[dict[str, Any], int] | None:
        """Sends hello and waits for the answer; None where no leader listens (yet), or it closed without an answer."""
        group = self._group
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
            # the leader gives up first and sends the reason: so this member waits a little longer
            connection.settimeout(max(self._deadline_s - time.monotonic(), 0) + 1.0)
            try:
                connection.connect(address(group.key))
                if _uid(connection) != os.getuid():
                    raise PermissionError("another user's process holds the socket of this job's ranks")
                connection.send(hello)
                if group.check_liveness is not None:
                    while time.monotonic() < self._deadline_s and not select.select([connection], [], [], CHECK_S)[0]:
                        group.check([])
                text, fds, _, _ = socket.recv_fds(connection, MESSAGE_BYTES, 1)
            except (ConnectionError, TimeoutError):
                return None
            if not text:  # the leader took this member in, and ended
                group.check([])
                raise RuntimeError(f"{group.named([0])} ended while {group.subject} was being set up")
            return json.loads(text), fds[0] if fds else -1

    def _sleep(self, bell: socket.socket) -> None:
        """Until the leader rings, or for RETRY_S; raises where waiting is in vain."""
        group = self._group
        if select.select([bell], [], [], RETRY_S)[0]:
            bell.recv(16)
            return
        group.check([0])
        if time.monotonic() > self._deadline_s:
            raise TimeoutError(f"{group.missing([0])} (waited for by {group.named([group.rank])})")


def _other_build(group: BootstrapGroup, theirs: str, name: str) -> str:
    """Why the member of that name cannot share memory with this one; "" where it can."""
    if theirs == group.build:
        return ""
    return (
        f"rank {name} runs build {theirs or 'unknown'} of ringtree's engine, {group.named([group.rank])} build "
        f"{group.build}, in {group.subject}: start every rank from the same installation"
    )


def _send(connections: dict[int, socket.socket], message: dict[str, Any], fd: int = -1) -> list[int]:
    """Sends all members the same, with the descriptor where there is one; returns the ranks that are gone."""
    gone = []
    text = json.dumps(message).encode()
    for rank, connection in sorted(connections.items()):
        try:
            if fd < 0:
                connection.send(text)
            else:
                socket.send_fds(connection, [text], [fd])
        except OSError:
            gone.append(rank)
    return gone


def _uid(connection: socket.socket) -> int:
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", credentials)[1])
