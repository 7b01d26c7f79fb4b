"""The leader of a bootstrap at an abstract socket: it takes the other members in, and sends every one all values."""

from __future__ import annotations

import contextlib
import os
import select
import time
from typing import Any

from ringtree.errors import Mismatch, PeerDied, Poisoned
from ringtree.runtime.bootstrap.bootstrap import Abandoned, BootstrapGroup
from ringtree.runtime.bootstrap.local.shared_memory import reserve
from ringtree.runtime.bootstrap.local.socket_messages import (
    CHECK_S,
    MESSAGE_BYTES,
    GivingUp,
    heard,
    held_by,
    other_build,
    rank_of,
    read,
    refusal,
    refusal_as_error,
    send,
)
from ringtree.runtime.bootstrap.local.socket_names import doorbell, listener
from ringtree.runtime.bootstrap.local.unix_socket import UnixSocket, connectionless

GRACE_S = 1.0
"""Seconds that a leader which gives up stays to answer later members with the reason."""

STRANGERS = 64
"""Connections beyond the members' that may wait to be taken in, or say nothing."""


class Leader:
    """Takes the other members in until all are here, or one of them cannot be."""

    def __init__(self, group: BootstrapGroup) -> None:
        self._group = group
        self._deadline_s = time.monotonic() + group.timeout_s
        self._connections: dict[int, UnixSocket] = {}
        self._silent: dict[int, UnixSocket] = {}  # that have sent nothing yet, by their descriptors
        self._strangers: dict[int, int] = {}  # connections of other users, by their ids
        self._values: dict[int, Any] = {}
        self._giving_up = GivingUp(group)
        self._expected = group.size  # by the member that expects most
        self._answered = set[int]()  # members that were refused, and have their reason

    def meet(self, memory: tuple[int, int, int] | None, value: Any) -> tuple[int, list[Any]]:
        """Admits every member and sends all of them the values; `memory`: how many bytes to share, how many of
        them exist, and for how many there must be room; None for none, and a descriptor of -1."""
        group, fd = self._group, -1
        try:
            with self._listener() as listener:
                try:
                    self._ring_doorbells()
                    if memory is not None:
                        fd = reserve(memory[1], group.subject, memory[0], memory[2])
                    self._admit_all(listener)
                except BaseException as error:
                    if fd >= 0:  # a descriptor to spare, by which those that come late can be answered
                        os.close(fd)
                        fd = -1
                    self._give_up(listener, error)
                    raise
                values = [value, *(self._values[rank] for rank in range(1, group.size))]
                group.complete()
                if dead := send(self._connections, {"offers": values, "build": group.build}, fd):
                    raise PeerDied(f"{group.named(dead)} ended while {group.subject} was being set up", dead[0])
            return fd, values
        except BaseException:
            if fd >= 0:
                os.close(fd)
            raise
        finally:
            for member in (*self._connections.values(), *self._silent.values()):
                member.close()

    def _listener(self) -> UnixSocket:
        group = self._group
        made = listener(group.key, self._deadline_s, group.size + STRANGERS)
        if isinstance(made, UnixSocket):
            return made
        if made[-1].user == os.getuid():
            raise RuntimeError(
                f"two processes claim to be {group.named([0])} of {group.subject}, this one and {made[-1]}: start each "
                "rank once, and every job with a key of its own"
            )
        raise RuntimeError(f"{group.named([0])} has no socket for {group.subject}: {held_by(made)}")

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
                raise self._giving_up.own(TimeoutError(f"{group.missing(absent)}{self._refused()}"))
            self._giving_up.check(absent)
            for fd, _ in poll.poll(min(left_s, CHECK_S) * 1e3):
                if fd == listener.fileno():
                    self._accept(listener, poll)
                    continue
                if fd in self._silent:
                    self._admit(self._silent.pop(fd), poll)
                    continue
                rank = next(rank for rank, member in self._connections.items() if member.fileno() == fd)
                raise self._giving_up.own(self._lost(rank))

    def _lost(self, rank: int) -> Exception:
        """Why this member does not wait any longer: it says so, or its process has ended."""
        group, message = self._group, b""
        with contextlib.suppress(OSError):
            message = self._connections[rank].recv(MESSAGE_BYTES)
        parting = read(message) if message else {}
        if "refused" not in parting:
            return PeerDied(f"{group.named([rank])} ended while {group.subject} was being set up", rank)
        error = refusal_as_error(parting)
        if rank_of(error) == rank and not group.inherited:  # interrupted: by now its process may have ended, too
            return error
        if not isinstance(error, TimeoutError):
            self._giving_up.check([])
        elif absent := [other for other in range(1, group.size) if other not in self._connections]:
            return group.missing(absent)
        return error

    def _accept(self, listener: UnixSocket, poll: select.poll) -> None:
        """Takes a connection in, whose process may say nothing: nobody waits for it alone."""
        member = listener.accept()
        user, _ = member.peer()
        if user != os.getuid():  # another user's process is no member
            self._strangers[user] = self._strangers.get(user, 0) + 1
            member.close()
            return
        if len(self._silent) >= self._group.size + STRANGERS:
            oldest = next(iter(self._silent))
            poll.unregister(oldest)
            self._silent.pop(oldest).close()
        member.setblocking(False)
        self._silent[member.fileno()] = member
        poll.register(member, select.POLLIN)

    def _admit(self, member: UnixSocket, poll: select.poll) -> None:
        if not (message := heard(member, poll)):
            member.close()
            return
        member.settimeout(max(self._deadline_s - time.monotonic(), 0.01))
        hello = read(message)
        if why := self._contradiction(hello):
            send({0: member}, {"refused": why, "kind": "RuntimeError"})
            member.close()
            self._answered.add(hello.get("member", 0))
            self._expected = max(self._group.size, hello.get("members", 0))
            raise self._giving_up.own(RuntimeError(why))
        rank = hello["member"]
        self._connections[rank], self._values[rank] = member, hello["offer"]
        poll.register(member, select.POLLIN)

    def _contradiction(self, hello: dict[str, Any]) -> str:
        """The contradiction between a member's hello and this group; "" where there is none."""
        if not hello:
            return f"a process that is no rank of this version came for {self._group.subject}"
        group, name, leader = self._group, hello["name"], self._group.named([0])
        if hello.get("failed"):
            return str(hello["failed"])
        if hello["member"] in self._connections or not 0 < hello["member"] < hello["members"]:
            return f"two processes claim to be rank {name} of {group.subject}"
        if hello["members"] != group.size:
            return f"rank {name} expects {hello['members']} ranks, {leader} expects {group.size}, in {group.subject}"
        if hello["subject"] != group.subject:
            return f"ranks disagree: rank {name} came for {hello['subject']}, {leader} for {group.subject}"
        return other_build(group, hello.get("build", ""), name)

    def _refused(self) -> str:
        """The other users whose processes came, in words; "" where none did."""
        each = [f"{count} connections of user {user}" for user, count in sorted(self._strangers.items())]
        return f"; refused {', '.join(each)}" if each else ""

    def _give_up(self, listener: UnixSocket, error: BaseException) -> None:
        """Sends the reason to the members: those present, and those that come within GRACE_S. A member that has it, and
        comes again, is early at another attempt."""
        reason = self._giving_up.to_others(error)
        rank, why = rank_of(reason), refusal(reason)
        send(self._connections, why)
        if isinstance(error, (Mismatch, Poisoned, Abandoned)) or (self._group.inherited and rank_of(error) >= 0):
            return  # the others find it themselves, by check()
        if not isinstance(error, Exception):
            return  # Ctrl-C: this process may not stay
        if rank < 0 and not isinstance(error, TimeoutError):
            self._group.check([])
        poll = select.poll()
        for waiting in (listener, *self._silent.values()):
            poll.register(waiting, select.POLLIN)
        known = {*self._connections, *self._answered, rank}
        absent = len([member for member in range(1, self._expected) if member not in known])
        until_s = time.monotonic() + GRACE_S
        while absent > 0 and (left_s := until_s - time.monotonic()) > 0:
            for fd, _ in poll.poll(left_s * 1e3):
                if fd == listener.fileno():
                    try:
                        self._accept(listener, poll)
                    except OSError:  # no descriptor yet
                        time.sleep(CHECK_S)
                elif (late := self._silent.pop(fd, None)) is not None:
                    if message := heard(late, poll):
                        again = read(message).get("member") in self._connections
                        send({0: late}, {**why, "again": again})
                        absent -= not again
                    late.close()
