"""The messages between the leader and the members of a bootstrap, and the words of its errors."""

from __future__ import annotations

import errno
import marshal
import select
import time
from typing import Any, TypeVar

from ringtree.errors import PeerDied
from ringtree.runtime.bootstrap.bootstrap import Abandoned, BootstrapGroup
from ringtree.runtime.bootstrap.local.socket_names import NAMES, Holder
from ringtree.runtime.bootstrap.local.unix_socket import UnixSocket
from ringtree.runtime.limits import explained
from ringtree.runtime.linux import of_kernel

Own = TypeVar("Own", bound=Exception)

MOST_CHARS = 200
"""The length of an interruption's own text that others get."""

MESSAGE_BYTES = 1 << 18
PACKET_BYTES = 1 << 17
"""A longer answer of the leader goes in parts of so many bytes: the kernel sends no packet beyond its buffer, 208 KiB
by Linux's default."""

CHECK_S = 0.1
"""Seconds between two checks of a waiting member whether the others live."""

RAISED: dict[str, type[Exception]] = {
    "TimeoutError": TimeoutError,
    "MemoryError": MemoryError,
    "Abandoned": Abandoned,
}
"""The exceptions of members where another gave up, beside PeerDied; RuntimeError for every other kind."""


def with_limit(group: BootstrapGroup, error: Exception) -> Exception:
    """The error; one with the rank and the limit where it is for want of descriptors."""
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        return OSError(error.errno, no_descriptor(group, error))
    return error


def no_descriptor(group: BootstrapGroup, error: OSError) -> str:
    """The error of a member that has as many open files as it may, with the limit."""
    return f"{group.named([group.rank])} can open no more files for {group.subject}: {explained(error)}"


def held_by(holders: list[Holder]) -> str:
    """The processes that hold names of a group, in words."""
    each = ", ".join(dict.fromkeys(map(str, holders)))
    return f"{each} {'hold' if len(set(holders)) > 1 else 'holds'} {len(holders)} of its {NAMES} names"


def other_build(group: BootstrapGroup, theirs: str, name: str) -> str:
    """Why the member of that name cannot share memory with this one; "" where it can."""
    if theirs == group.build:
        return ""
    return (
        f"rank {name} runs build {theirs or 'unknown'} of ringtree's engine, {group.named([group.rank])} build "
        f"{group.build}, in {group.subject}: start every rank from the same installation"
    )


def rank_of(error: BaseException) -> int:
    """The rank that has died; -1 where the error is for another reason."""
    return int(error.rank) if isinstance(error, PeerDied) else -1


def interrupted(group: BootstrapGroup, by: BaseException) -> PeerDied:
    """The error of the others where this member was interrupted, by Ctrl-C or the exception of a signal's handler."""
    text = f"{group.named([group.rank])} was interrupted while {group.subject} was being set up{_described(by)}"
    return PeerDied(text, group.rank)


def refusal(error: Exception) -> dict[str, Any]:
    """The message of a member that gives up to those who wait with it."""
    why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return {"refused": why, "kind": type(error).__name__, "rank": rank_of(error)}


def refusal_as_error(message: dict[str, Any]) -> Exception:
    """The error of a member that was sent a refusal."""
    if message["kind"] == "PeerDied":
        return PeerDied(message["refused"], message.get("rank", -1))
    return RAISED.get(message["kind"], RuntimeError)(message["refused"])


def heard(member: UnixSocket, poll: select.poll) -> bytes:
    """The message that came; b"" where the other end has closed instead."""
    poll.unregister(member)
    try:
        return member.recv(MESSAGE_BYTES)
    except OSError:
        return b""


def send(members: dict[int, UnixSocket], answer: dict[str, Any], fd: int = -1) -> list[int]:
    """Sends all members the same, with the descriptor where there is one; returns the ranks that are gone."""
    gone = []
    first, *parts = packets(answer)
    for rank, member in sorted(members.items()):
        try:
            if fd < 0:
                member.send(first)
            else:
                member.send_with(fd, first)
            for part in parts:
                member.send(part)
        except OSError:
            gone.append(rank)
    return gone


def packets(answer: dict[str, Any]) -> list[bytes]:
    """The answer as a packet; a long one as several, of which the first has their number, and the build, by which
    members of another refuse it."""
    message = written(answer)
    if len(message) <= PACKET_BYTES:
        return [message]
    parts = [message[at : at + PACKET_BYTES] for at in range(0, len(message), PACKET_BYTES)]
    return [written({"parts": len(parts), "build": answer.get("build", "")}), *parts]


def whole(first: bytes, leader: UnixSocket, until_s: float) -> dict[str, Any] | type[Exception]:
    """The answer that begins with that packet. ConnectionError: the leader ended before the last part; TimeoutError: it
    has not come until then, as time.monotonic() counts."""
    answer, parts = read(first), list[bytes]()
    for _ in range(answer.get("parts", 0) if first else 0):
        if not leader.is_readable(until_s - time.monotonic()):
            return TimeoutError
        parts.append(leader.received(MESSAGE_BYTES))
    if not first or not all(parts):  # the last thing that comes from a leader that ended is nothing
        return ConnectionError
    return read(b"".join(parts)) if parts else answer


def written(message: dict[str, Any]) -> bytes:
    """A message in a form that every Python reads. JSON's would cost each rank 1 ms of its start."""
    return marshal.dumps(message, 2)


def read(message: bytes) -> dict[str, Any]:
    """A message of this user's process, which the caller has made sure of: no other's may be read so. Empty where it is
    none."""
    try:
        found = marshal.loads(message)
    except (EOFError, TypeError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


class GivingUp:
    """The errors by which a member gives up of its own accord. Whatever else ends its wait is an interruption: Ctrl-C,
    or the exception of a signal's handler, whose class and text may be those of any error."""

    def __init__(self, group: BootstrapGroup) -> None:
        self._group = group
        self._own: Exception | None = None

    def own(self, error: Own) -> Own:
        """Notes an error of the member's own, and returns it."""
        self._own = error
        return error

    def check(self, absent: list[int]) -> None:
        """The group's liveness check, whose errors are the member's own."""
        try:
            self._group.check(absent)
        except RuntimeError as error:
            self._own = error
            raise

    def to_others(self, error: BaseException) -> Exception:
        """The error of the other members where this one ends its wait with that one."""
        if isinstance(error, Exception) and (error is self._own or of_kernel(error)):
            return with_limit(self._group, error)
        return error if isinstance(error, MemoryError) else interrupted(self._group, error)


def _described(error: BaseException) -> str:
    """` (TimeoutError: its text)`; "" for Ctrl-C."""
    if isinstance(error, KeyboardInterrupt):
        return ""
    line = (f"{type(error).__name__}: {error}".splitlines() or [""])[0]
    return f" ({line[:MOST_CHARS]})"
