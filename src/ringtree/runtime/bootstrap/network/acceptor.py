"""The accepted connections of a listening socket, of which only some may be unproved: strangers cannot use up this
process's descriptors."""

from __future__ import annotations

import contextlib
import selectors
import socket
import time

from ringtree.runtime.bootstrap.network.connection import BUSY, Connection

STRANGERS = 64
"""Connections beyond the members' that may be unproved."""
PAUSE_S = 0.1
"""Seconds without new connections where there is no descriptor for one: its listener would be readable all the time."""


class Acceptor:
    """Accepts connections, registers them in a selector with themselves as data, and sends each its nonce.

    At most `most` of them have proved nothing, each of them for `within_s` seconds at most: for one more, the oldest
    makes room.
    """

    def __init__(self, listener: socket.socket, selector: selectors.BaseSelector, most: int, within_s: float) -> None:
        self._listener, self._selector = listener, selector
        self._most, self._within_s = most, within_s
        self._unproved: list[Connection] = []  # the oldest first
        self._paused_s = 0.0  # until when; 0: it accepts
        listener.setblocking(False)
        selector.register(listener, selectors.EVENT_READ)

    def accept(self) -> list[Connection]:
        """Accepts a connection that has come; returns those that have to make room, which the caller drops."""
        try:
            wire, _ = self._listener.accept()
        except (BlockingIOError, ConnectionError):
            return []
        except OSError:  # no descriptor is left, or no memory
            if not (oldest := self._oldest(1)):
                self._pause()
            return oldest
        with contextlib.suppress(OSError):  # it has gone already
            connection = Connection(wire)
            self._selector.register(wire, selectors.EVENT_READ, connection)
            self._unproved.append(connection)
            connection.send({"nonce": connection.nonce})
        self._forget()
        return self._oldest(len(self._unproved) - self._most)

    def wait_s(self, most_s: float) -> float:
        """The seconds to wait for events: `most_s`, less in a pause."""
        return min(most_s, PAUSE_S) if self._paused_s else most_s

    def overdue(self) -> list[Connection]:
        """The connections that have proved nothing in time, which the caller drops. Called now and then, it accepts
        again after a pause."""
        now_s = time.monotonic()
        if self._paused_s and now_s > self._paused_s:
            self._paused_s = 0.0
            with contextlib.suppress(OSError, ValueError):  # closed meanwhile
                self._selector.register(self._listener, selectors.EVENT_READ)
        self._forget()
        return [each for each in self._unproved if each.accepted_s < now_s - self._within_s]

    def _pause(self) -> None:
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(self._listener)
        self._paused_s = time.monotonic() + PAUSE_S

    def _oldest(self, count: int) -> list[Connection]:
        self._forget()
        found = self._unproved[: max(count, 0)]
        for connection in found:
            with contextlib.suppress(OSError):
                connection.send(BUSY)
        return found

    def _forget(self) -> None:
        """Forgets those that have proved themselves, or were dropped."""
        self._unproved = [each for each in self._unproved if not each.proved and each.wire.fileno() >= 0]
