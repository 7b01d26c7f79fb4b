"""The bootstrap of the processes of one machine: at an abstract unix socket.

The socket's name comes from the user's id and the group's key, and vanishes with the socket: nothing can leak. The
leader collects every member's value and sends all values to every member, with a descriptor of shared memory where the
group asked for one. So the handshake proves that the members are on one machine, and are the same user's. Groups,
sub-groups and symmetric memory use it.
"""

from __future__ import annotations

import contextlib
import errno
import marshal
import os
import select
import time
from typing import Any

from ringtree.errors import Mismatch, PeerDied, Poisoned
from ringtree.ir.digest import sha256
from ringtree.runtime.bootstrap.bootstrap import Abandoned, BootstrapGroup
from ringtree.runtime.bootstrap.shared_memory import reserve
from ringtree.runtime.bootstrap.unix_socket import UnixSocket, connection, connectionless

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
    """The HostBootstrap of one machine: member 0 leads, and the others come to its socket. Values are None, bool,
    int, float, str, bytes, and list, tuple and dict of them: of these classes, and not of others made from them."""

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
        self._connections: dict[int, UnixSocket] = {}
        self._values: dict[int, Any] = {}

    def meet(self, memory: tuple[int, int, int] | None, value: Any) -> tuple[int, list[Any]]:
        """Admits every member and sends all of them the values; `memory` as in _meet."""
        group, fd = self._group, -1
        try:
            with connection() as listener:
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
            for member in self._connections.values():
                member.close()

    def _listen(self, listener: UnixSocket) -> None:
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
        with connectionless() as ringer:
            for rank in range(1, self._group.size):
                with contextlib.suppress(OSError):  # that member comes later
                    ringer.send_at_once(b"open", doorbell(self._group.key, rank))

    def _admit_all(self, listener: UnixSocket) -> None:
        group, poll = self._group, select.poll()
        poll.register(listener, select.POLLIN)
        while absent := [rank for rank in range(1, group.size) if rank not in self._connections]:
            left_s = self._deadline_s - time.monotonic()
            if left_s <= 0:
                raise group.missing(absent)
            group.check(absent)
            for fd, _ in poll.poll(min(left_s, CHECK_S) * 1e3):
                if fd == listener.fileno():
                    self._admit(listener, poll)
                    continue
                gone = [rank for rank, member in self._connections.items() if member.fileno() == fd]
                raise RuntimeError(f"{group.named(gone)} ended while {group.subject} was being set up")

    def _admit(self, listener: UnixSocket, poll: select.poll) -> None:
        member = listener.accept()
        if member.user() != os.getuid():  # another user's process is no member
            member.close()
            return
        member.settimeout(max(self._deadline_s - time.monotonic(), 0.01))
        try:
            message = member.recv(MESSAGE_BYTES)
        except OSError:
            message = b""
        if not message:
            member.close()
            return
        hello = _read(message)
        if why := self._contradiction(hello):
            _send({0: member}, {"refused": why, "kind": "RuntimeError"})
            member.close()
            raise RuntimeError(why)
        rank = hello["member"]
        self._connections[rank], self._values[rank] = member, hello["offer"]
        poll.register(member, select.POLLIN)

    def _contradiction(self, hello: dict[str, Any]) -> str:
        """The contradiction between a member's hello and this group; "" where there is none."""
        if not hello:
            return f"a process that is no rank of this version came for {self._group.subject}"
        group, name, leader = self._group, hello["name"], self._group.named([0])
        if hello["member"] in self._connections or not 0 < hello["member"] < hello["members"]:
            return f"two processes claim to be rank {name} of {group.subject}"
        if hello["members"] != group.size:
            return f"rank {name} expects {hello['members']} ranks, {leader} expects {group.size}, in {group.subject}"
        if hello["subject"] != group.subject:
            return f"ranks disagree: rank {name} came for {hello['subject']}, {leader} for {group.subject}"
        return _other_build(group, hello.get("build", ""), name)

    def _give_up(self, listener: UnixSocket, error: Exception) -> None:
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
                with listener.accept() as late:
                    late.settimeout(left_s)
                    late.recv(MESSAGE_BYTES)
                    _send({0: late}, refusal)
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
        answer, fd = self._answer(_written(hello))
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
        with connectionless() as bell:
            with contextlib.suppress(OSError):  # another process claims to be this member, and has the doorbell
                bell.bind(doorbell(self._group.key, self._group.rank))
            while (answer := self._visit(hello)) is None:
                self._sleep(bell)
        return answer

    def _visit(self, hello: bytes) -> tuple[dict[str, Any], int] | None:
        """Sends hello and waits for the answer; None where no leader listens (yet), or it closed without an answer.
        TimeoutError: if it stands still."""
        group = self._group
        with connection() as leader:
            # the leader gives up first and sends the reason: so this member waits a little longer
            leader.settimeout(max(self._deadline_s - time.monotonic(), 0) + 1.0)
            try:
                leader.connect(address(group.key))
                if leader.user() != os.getuid():
                    raise PermissionError("another user's process holds the socket of this job's ranks")
                leader.send(hello)
                if group.check_liveness is not None:
                    while time.monotonic() < self._deadline_s and not select.select([leader], [], [], CHECK_S)[0]:
                        group.check([])
                    leader.settimeout(max(self._deadline_s - time.monotonic(), 0) + 1.0)
                message, fd = leader.receive_with(MESSAGE_BYTES)
            except ConnectionError:
                return None
            except TimeoutError:
                raise self._late() from None
            if not message:  # the leader took this member in, and ended
                group.check([])
                raise RuntimeError(f"{group.named([0])} ended while {group.subject} was being set up")
            return _read(message), fd

    def _sleep(self, bell: UnixSocket) -> None:
        """Until the leader rings, or for RETRY_S; raises where waiting is in vain."""
        group = self._group
        if select.select([bell], [], [], RETRY_S)[0]:
            bell.recv(16)
            return
        group.check([0])
        if time.monotonic() > self._deadline_s:
            raise self._late()

    def _late(self) -> TimeoutError:
        return TimeoutError(f"{self._group.missing([0])} (waited for by {self._group.named([self._group.rank])})")


def _other_build(group: BootstrapGroup, theirs: str, name: str) -> str:
    """Why the member of that name cannot share memory with this one; "" where it can."""
    if theirs == group.build:
        return ""
    return (
        f"rank {name} runs build {theirs or 'unknown'} of ringtree's engine, {group.named([group.rank])} build "
        f"{group.build}, in {group.subject}: start every rank from the same installation"
    )


def _send(members: dict[int, UnixSocket], answer: dict[str, Any], fd: int = -1) -> list[int]:
    """Sends all members the same, with the descriptor where there is one; returns the ranks that are gone."""
    gone = []
    message = _written(answer)
    for rank, member in sorted(members.items()):
        try:
            if fd < 0:
                member.send(message)
            else:
                member.send_with(fd, message)
        except OSError:
            gone.append(rank)
    return gone


def _written(message: dict[str, Any]) -> bytes:
    """A message in a form that every Python reads. JSON's would cost each rank 1 ms of its start."""
    return marshal.dumps(message, 2)


def _read(message: bytes) -> dict[str, Any]:
    """A message of this user's process, which the caller has made sure of: no other's may be read so. Empty where it is
    none."""
    try:
        read = marshal.loads(message)
    except (EOFError, TypeError, ValueError):
        return {}
    return read if isinstance(read, dict) else {}
