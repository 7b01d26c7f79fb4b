"""A member of a bootstrap at an abstract socket that is not its leader."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from typing import Any

from ringtree.errors import PeerDied
from ringtree.runtime.bootstrap.bootstrap import BootstrapGroup
from ringtree.runtime.bootstrap.local.doorbell import LEADER, Doorbell
from ringtree.runtime.bootstrap.local.socket_messages import (
    CHECK_S,
    MESSAGE_BYTES,
    GivingUp,
    held_by,
    no_descriptor,
    other_build,
    refusal,
    refusal_as_error,
    whole,
    written,
)
from ringtree.runtime.bootstrap.local.socket_names import NAMES, Holder, address, reach
from ringtree.runtime.bootstrap.local.unix_socket import UnixSocket, connection
from ringtree.runtime.linux import of_kernel


class Follower:
    """A member that comes to the leader's socket, and waits for it where it is not there yet."""

    def __init__(self, group: BootstrapGroup) -> None:
        self._group = group
        self._deadline_s = time.monotonic() + group.timeout_s
        self._giving_up = GivingUp(group)
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
        group.complete()
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
        try:
            return self._asked(leader, hello)
        except BaseException as error:
            with contextlib.suppress(OSError):  # the leader would take this member for one that has died
                leader.send(written(refusal(self._giving_up.to_others(error))))
            raise

    def _asked(self, leader: UnixSocket, hello: dict[str, Any]) -> tuple[dict[str, Any], int] | None:
        with self._descriptor_to_come(leader, hello):
            if not leader.sends(written(hello)):
                return None
            if self._group.check_liveness is not None:
                while time.monotonic() < self._deadline_s and not leader.is_readable(CHECK_S):
                    self._check(leader)
            # the leader gives up first and sends the reason: so this member waits a little longer
            if not leader.is_readable(self._deadline_s - time.monotonic() + 1.0):
                raise self._late()
        try:
            message, fd = leader.receive_with(MESSAGE_BYTES)
        except ConnectionError as error:
            if not of_kernel(error):
                raise
            return None
        try:
            answer = whole(message, leader, max(self._deadline_s, time.monotonic()) + 1.0)
            if not isinstance(answer, dict):
                raise self._late() if answer is TimeoutError else self._ended()
        except BaseException:
            if fd >= 0:
                os.close(fd)
            raise
        return None if answer.get("again") else (answer, fd)

    def _ended(self) -> PeerDied:
        """The error of a member that the leader took in before it ended."""
        self._giving_up.check([])
        error = PeerDied(f"{self._group.named([0])} ended while {self._group.subject} was being set up", 0)
        return self._giving_up.own(error)

    def _check(self, leader: UnixSocket) -> None:
        """Raises where waiting is in vain. In a world the leader may have sent its answer meanwhile, and members that
        had theirs sooner have ended."""
        try:
            self._giving_up.check([])
        except PeerDied:
            if self._group.inherited or not leader.is_readable(CHECK_S):
                raise

    @contextlib.contextmanager
    def _descriptor_to_come(self, leader: UnixSocket, hello: dict[str, Any]) -> Iterator[None]:
        """Holds a descriptor in reserve for the memory that the answer brings. Where there is none, the leader and so
        all members learn it now."""
        try:
            reserved = os.dup(leader.fileno())
        except OSError as error:
            leader.sends(written(hello | {"failed": no_descriptor(self._group, error)}))
            raise
        try:
            yield
        finally:
            os.close(reserved)

    def _sleep(self, bell: Doorbell) -> None:
        """Until the leader rings, or for a while; raises where waiting is in vain. A member that has ended because the
        leader did not come, or because of another, is none whose death counts."""
        bell.sleep()
        ended = -1
        try:
            self._group.check([0])
        except PeerDied as died:
            culprit = bell.culprit_of(died.rank)
            if culprit is None:
                bell.give_up(died.rank)
                raise
            if culprit != LEADER:
                bell.give_up(culprit)
                raise self._gone(culprit, died.rank) from None
            ended = died.rank
        if ended >= 0 or time.monotonic() > self._deadline_s:
            bell.give_up()
            raise self._late(ended)

    def _gone(self, culprit: int, witness: int) -> PeerDied:
        """The error for a member that has ended, of which this one has from another, which has ended because of it."""
        group = self._group
        text = f"{group.named([culprit])} died while {group.named([group.rank])} waited for {group.subject}"
        return PeerDied(f"{text} (seen by {group.named([witness])}, which has ended because of it)", culprit)

    def _late(self, waiting: int = -1) -> TimeoutError:
        """`waiting`: the member that waited for the leader until time was up; -1: this one."""
        held = f"; {held_by(self._holders)}" if self._holders else ""
        who = self._group.named([waiting if waiting >= 0 else self._group.rank])
        return self._giving_up.own(TimeoutError(f"{self._group.missing([0])} (waited for by {who}){held}"))
