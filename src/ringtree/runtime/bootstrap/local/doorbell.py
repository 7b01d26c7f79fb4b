"""The bell of a member that came before the leader: the leader rings it, and who waits no longer leaves word there.

Anybody can ring it. So of many rings none shortens the sleep, and a word only says more of a member that has ended.
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

    def give_up(self) -> None:
        """Leaves word with the other members that wait for the leader."""
        if self._socket is None:
            return
        for rank in range(1, self._group.size):
            with suppress(OSError):  # that member does not wait there
                self._socket.send_at_once(_gave_up(self._group.rank), doorbell(self._group.key, rank))

    def gave_up(self, rank: int) -> bool:
        """Whether that member, whose process has ended, has left word."""
        for _ in range(self._group.size):
            if self._socket is None or not self._socket.is_readable(0):
                break
            self._words.add(self._socket.recv(_WORD_BYTES))
        return _gave_up(rank) in self._words


def _gave_up(rank: int) -> bytes:
    return _GAVE_UP + str(rank).encode()
