"""The bell of a member that came before the leader: the leader rings it, and who waits no longer leaves word there.

Anybody can ring it. So of many rings none shortens the sleep, and a word only says more of a member that has ended:
that it gave up because the leader did not come, or because of another that it had seen end.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress

from ringtree.runtime.bootstrap.bootstrap import BootstrapGroup
from ringtree.runtime.bootstrap.local.socket_names import doorbell
from ringtree.runtime.bootstrap.local.unix_socket import UnixSocket, connectionless

RETRY_S = 0.02
"""Seconds that a member which came before the leader sleeps, unless the leader rings."""

MOST_RINGS = 16
"""Rings that end a member's sleep at once; the leader rings once."""

LEADER = -1
"""In place of a culprit: the leader did not come."""

_GAVE_UP = b"gave up "
_WORD_BYTES = 32


class Doorbell:
    """The bell of this member. A process without descriptors to spare has none, and sleeps without."""

    def __init__(self, group: BootstrapGroup) -> None:
        self._group, self._rings, self._words = group, 0, set[bytes]()
        self._socket: UnixSocket | None = None
        bell: UnixSocket | None = None
        try:
            bell = connectionless()
            os.close(os.dup(bell.fileno()))  # the connection needs one, too
        except OSError:
            if bell is not None:
                bell.close()
            return
        self._socket = bell
        with suppress(OSError):  # another process claims to be this member, and has the doorbell
            bell.bind(doorbell(group.key, group.rank))

    def __enter__(self) -> Doorbell:
        return self

    def __exit__(self, *_: object) -> None:
        if self._socket is not None:
            self._socket.close()

    def sleep(self) -> None:
        """Returns when somebody rings, or after RETRY_S."""
        if self._socket is None:
            time.sleep(RETRY_S)
        elif self._socket.is_readable(RETRY_S):
            self._words.add(self._socket.recv(_WORD_BYTES))
            self._rings += 1
            if self._rings > MOST_RINGS:
                time.sleep(RETRY_S)

    def give_up(self, culprit: int = LEADER) -> None:
        """Leaves word with the other members that wait for the leader. `culprit`: the member that has ended, else the
        leader, which did not come."""
        if self._socket is None:
            return
        for rank in range(1, self._group.size):
            with suppress(OSError):  # that member does not wait there
                self._socket.send_at_once(_gave_up(self._group.rank, culprit), doorbell(self._group.key, rank))

    def culprit_of(self, rank: int) -> int | None:
        """Because of whom that member, whose process has ended, has left word that it gave up; None without a word."""
        for _ in range(self._group.size):
            if self._socket is None or not self._socket.is_readable(0):
                break
            self._words.add(self._socket.recv(_WORD_BYTES))
        return next((c for c in range(LEADER, self._group.size) if _gave_up(rank, c) in self._words), None)


def _gave_up(rank: int, culprit: int) -> bytes:
    return _GAVE_UP + f"{rank} {culprit}".encode()
