"""The names of a group's abstract sockets, and who holds one.

Any user of the machine may take any name, and may read in /proc/net/unix which are taken. So a name proves nothing: the
kernel says whose process is at the other end. Where it is another user's, the group's next name is taken.
"""

from __future__ import annotations

import errno
import os
import time
from typing import NamedTuple

from ringtree.ir.digest import sha256
from ringtree.runtime.bootstrap.local.unix_socket import UnixSocket, connection
from ringtree.runtime.linux import of_kernel

NAMES = 4
"""The names at which a leader may be found, tried in this order."""

SILENT_S = 1.0
"""Seconds for which a name may be held at which nobody can be reached: a leader listens at once where it has one."""

TRY_S = 0.01
"""Seconds between two tries to take a name."""


class Holder(NamedTuple):
    """A process that holds a name; -1 for what cannot be found out. `pid` is 0 in another namespace of processes."""

    user: int
    pid: int

    def __str__(self) -> str:
        if self.user < 0:
            return "a process that cannot be reached"
        return (f"process {self.pid}" if self.pid > 0 else "a process") + f" of user {self.user}"


def address(key: str, number: int = 0) -> str:
    """The socket's name for a key: short for every key, and of this user's groups alone."""
    digest = sha256(f"{key}, name {number}".encode() if number else key.encode()).hexdigest()[:32]
    return f"\0ringtree-{os.getuid()}-{digest}"


def doorbell(key: str, rank: int) -> str:
    """The name of the socket by which the leader wakes a member that came before it."""
    return address(f"{key}, bell {rank}")


def listener(key: str, until_s: float, backlog: int) -> UnixSocket | list[Holder]:
    """A socket that listens at the first of the key's names that no other user's process holds. Where all are held, the
    holders; the last may be one of this user, which held a name until then (as time.monotonic() counts): before, it
    might have been another group of this key that was about to end."""
    holders = []
    for number in range(NAMES):
        made = connection()
        try:
            holder = _take(made, address(key, number), until_s)
            if holder is None:
                made.listen(backlog)
                return made
        except BaseException:
            made.close()
            raise
        made.close()
        holders.append(holder)
        if holder.user == os.getuid():
            break
    return holders


def reach(socket: UnixSocket, name: str) -> Holder | None:
    """Connects to a name; returns who holds it, None where nobody listens there."""
    try:
        socket.connect(name)
    except (ConnectionError, TimeoutError) as error:
        if not of_kernel(error):  # a signal's handler's
            raise
        return None
    except OSError as error:  # more wait there than it takes in, or it is no socket for connections
        if error.errno not in (errno.EAGAIN, errno.EPROTOTYPE):
            raise
        return Holder(-1, -1)
    return Holder(*socket.peer())


def _take(socket: UnixSocket, name: str, until_s: float) -> Holder | None:
    """Binds the socket; returns who holds the name where it cannot."""
    began_s = time.monotonic()
    while True:
        try:
            socket.bind(name)
            return None
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
        with connection() as probe:
            probe.setblocking(False)
            holder = reach(probe, name)
        now_s = time.monotonic()
        if holder is not None and holder.user not in (-1, os.getuid()):
            return holder
        if holder is not None and holder.user == os.getuid():
            if now_s > until_s:
                return holder
        elif now_s > min(began_s + SILENT_S, until_s):
            return holder or Holder(-1, -1)
        time.sleep(TRY_S)
