"""The bootstrap of the processes of one machine: at an abstract unix socket.

The socket's name comes from the user's id and the group's key, and vanishes with the socket: nothing can leak. The
kernel tells where another user's process has taken it, and then the next name serves. The leader collects every
member's value and sends all values to every member, with a descriptor of shared memory where the group asked for one.
So the handshake proves that the members are on one machine, and are the same user's. Groups, sub-groups and symmetric
memory use it.
"""

from __future__ import annotations

import contextlib
import os
import select
import time
from collections.abc import Iterator
from typing import Any

from ringtree.errors import Mismatch, PeerDied, Poisoned
from ringtree.runtime.bootstrap.bootstrap import Abandoned, BootstrapGroup
from ringtree.runtime.bootstrap.doorbell import Doorbell
from ringtree.runtime.bootstrap.shared_memory import reserve
from ringtree.runtime.bootstrap.socket_messages import (
    MESSAGE_BYTES,
    heard,
    held_by,
    interrupted,
    no_descriptor,
    other_build,
    rank_of,
    read,
    refusal,
    refusal_as_error,
    send,
    with_limit,
    written,
)
from ringtree.runtime.bootstrap.socket_names import NAMES, Holder, address, doorbell, listener, reach
from ringtree.runtime.bootstrap.unix_socket import UnixSocket, connection, connectionless

CHECK_S = 0.1
"""Seconds between two checks of a waiting member whether the others live."""

GRACE_S = 1.0
"""Seconds that a leader which gives up stays to answer later members with the reason."""

STRANGERS = 64
"""Connections beyond the members' that may wait to be taken in, or say nothing."""


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
    try:
        return Leader(group).meet(memory, value) if group.rank == 0 else Follower(group).meet(value)
    except OSError as error:
        explained = with_limit(group, error)
        if explained is error:
            raise
        raise explained from None


class Leader:
    """Takes the other members in until all are here, or one of them cannot be."""

    def __init__(self, group: BootstrapGroup) -> None:
        self._group = group
        self._deadline_s = time.monotonic() + group.timeout_s
        self._connections: dict[int, UnixSocket] = {}
        self._silent: dict[int, UnixSocket] = {}  # that have sent nothing yet, by their descriptors
        self._strangers: dict[int, int] = {}  # connections of other users, by their ids
        self._values: dict[int, Any] = {}

    def meet(self, memory: tuple[int, int, int] | None, value: Any) -> tuple[int, list[Any]]:
        """Admits every member and sends all of them the values; `memory` as in _meet."""
        group, fd = self._group, -1
        try:
            with self._listener() as listener:
                try:
                    self._ring_doorbells()
                    if memory is not None:
                        fd = reserve(memory[1], group.subject, memory[0], memory[2])
                    self._admit_all(listener)
                except Exception as error:
                    if fd >= 0:  # a descriptor to spare, by which those that come late can be answered
                        os.close(fd)
                        fd = -1
                    self._give_up(listener, with_limit(group, error))
                    raise
                except KeyboardInterrupt:
                    send(self._connections, refusal(interrupted(group)))
                    raise
                values = [value, *(self._values[rank] for rank in range(1, group.size))]
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
                raise TimeoutError(f"{group.missing(absent)}{self._refused()}")
            group.check(absent)
            for fd, _ in poll.poll(min(left_s, CHECK_S) * 1e3):
                if fd == listener.fileno():
                    self._accept(listener, poll)
                    continue
                if fd in self._silent:
                    self._admit(self._silent.pop(fd), poll)
                    continue
                raise self._lost(next(rank for rank, member in self._connections.items() if member.fileno() == fd))

    def _lost(self, rank: int) -> Exception:
        """Why this member does not wait any longer: it says so, or its process has ended."""
        group, message = self._group, b""
        with contextlib.suppress(OSError):
            message = self._connections[rank].recv(MESSAGE_BYTES)
        parting = read(message) if message else {}
        if "refused" not in parting:
            return PeerDied(f"{group.named([rank])} ended while {group.subject} was being set up", rank)
        error = refusal_as_error(parting)
        if not isinstance(error, TimeoutError):
            group.check([])
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
            raise RuntimeError(why)
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

    def _give_up(self, listener: UnixSocket, error: Exception) -> None:
        """Sends the reason to the members: those present, and those that come within GRACE_S."""
        rank, why = rank_of(error), refusal(error)
        send(self._connections, why)
        if isinstance(error, (Mismatch, Poisoned, Abandoned)) or (self._group.inherited and rank >= 0):
            return  # the others find it themselves, by check()
        if rank < 0 and not isinstance(error, TimeoutError):
            self._group.check([])
        poll = select.poll()
        for waiting in (listener, *self._silent.values()):
            poll.register(waiting, select.POLLIN)
        absent = self._group.size - 1 - len(self._connections) - (rank > 0 and rank not in self._connections)
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
                        send({0: late}, why)
                    absent -= bool(message)
                    late.close()


class Follower:
    """A member that comes to the leader's socket, and waits for it where it is not there yet."""

    def __init__(self, group: BootstrapGroup) -> None:
        self._group = group
        self._deadline_s = time.monotonic() + group.timeout_s
        self._holders: list[Holder] = []  # other users' processes that hold names of the leader's

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
        answer, fd = self._answer(hello)
        if "refused" in answer:
            error = refusal_as_error(answer)
            late = isinstance(error, TimeoutError)  # others that were sent it may have ended by now
            if group.inherited or (answer.get("rank", -1) < 0 and not late):
                group.check([])  # what made the leader give up, as this member's own error
            raise error
        if why := other_build(group, answer.get("build", ""), group.names[0]):
            if fd >= 0:
                os.close(fd)
            raise RuntimeError(why)
        return fd, answer["offers"]

    def _answer(self, hello: dict[str, Any]) -> tuple[dict[str, Any], int]:
        answer = self._visit(hello)
        if answer is not None:
            return answer
        with Doorbell(self._group) as bell:
            while (answer := self._visit(hello)) is None:
                self._sleep(bell)
        return answer

    def _visit(self, hello: dict[str, Any]) -> tuple[dict[str, Any], int] | None:
        """Sends hello and waits for the answer; None where no leader listens (yet), or it closed without an answer. A
        name that another user's process holds is not the leader's."""
        self._holders = []
        for number in range(NAMES):
            with connection() as leader:
                leader.setblocking(False)
                holder = reach(leader, address(self._group.key, number))
                if holder is not None and holder.user == os.getuid():
                    return self._answered(leader, hello)
                if holder is not None:
                    self._holders.append(holder)
        if len(self._holders) == NAMES and all(holder.user >= 0 for holder in self._holders):
            raise PermissionError(
                f"{self._group.named([0])} cannot be reached for {self._group.subject}: {held_by(self._holders)}"
            )
        return None

    def _answered(self, leader: UnixSocket, hello: dict[str, Any]) -> tuple[dict[str, Any], int] | None:
        group = self._group
        # the leader gives up first and sends the reason: so this member waits a little longer
        leader.settimeout(max(self._deadline_s - time.monotonic(), 0) + 1.0)
        try:
            with self._descriptor_to_come(leader, hello):
                leader.send(written(hello))
                if group.check_liveness is not None:
                    while time.monotonic() < self._deadline_s and not leader.is_readable(CHECK_S):
                        self._check(leader)
                leader.is_readable(self._deadline_s - time.monotonic() + 1.0)
                leader.settimeout(CHECK_S)  # what it sent is here by now
            message, fd = leader.receive_with(MESSAGE_BYTES)
        except ConnectionError:
            return None
        except (TimeoutError, KeyboardInterrupt) as error:
            ends = self._late() if isinstance(error, TimeoutError) else interrupted(group)
            with contextlib.suppress(OSError):  # the leader would take this member for one that has died
                leader.send(written(refusal(ends)))
            if isinstance(error, KeyboardInterrupt):
                raise
            raise ends from None
        if not message:  # the leader took this member in, and ended
            group.check([])
            raise PeerDied(f"{group.named([0])} ended while {group.subject} was being set up", 0)
        return read(message), fd

    def _check(self, leader: UnixSocket) -> None:
        """Raises where waiting is in vain. In a world the leader may have sent its answer meanwhile, and members that
        had theirs sooner have ended."""
        try:
            self._group.check([])
        except Exception as error:
            late = isinstance(error, PeerDied) and not self._group.inherited
            if late and leader.is_readable(CHECK_S):
                return
            with contextlib.suppress(OSError):  # it would take this member for the one that has ended
                leader.send(written(refusal(error)))
            raise

    @contextlib.contextmanager
    def _descriptor_to_come(self, leader: UnixSocket, hello: dict[str, Any]) -> Iterator[None]:
        """Holds a descriptor in reserve for the memory that the answer brings. Where there is none, the leader and so
        all members learn it now."""
        try:
            reserved = os.dup(leader.fileno())
        except OSError as error:
            leader.send(written(hello | {"failed": no_descriptor(self._group, error)}))
            raise
        try:
            yield
        finally:
            os.close(reserved)

    def _sleep(self, bell: Doorbell) -> None:
        """Until the leader rings, or for a while; raises where waiting is in vain. A member that has ended because the
        leader did not come is none whose death counts."""
        bell.sleep()
        ended = -1
        try:
            self._group.check([0])
        except PeerDied as died:
            if not bell.gave_up(died.rank):
                raise
            ended = died.rank
        if ended >= 0 or time.monotonic() > self._deadline_s:
            bell.give_up()
            raise self._late(ended)

    def _late(self, waiting: int = -1) -> TimeoutError:
        """`waiting`: the member that waited for the leader until time was up; -1: this one."""
        held = f"; {held_by(self._holders)}" if self._holders else ""
        who = self._group.named([waiting if waiting >= 0 else self._group.rank])
        return TimeoutError(f"{self._group.missing([0])} (waited for by {who}){held}")
