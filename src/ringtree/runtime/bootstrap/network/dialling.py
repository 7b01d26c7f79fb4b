"""The way to another process's socket over TCP: a connection attempt that waits in poll()."""

from __future__ import annotations

import errno
import os
import select
import socket
import time


def dialled(address: tuple[str, int], most_s: float) -> socket.socket:
    """A connection to a name or numeric address and a port, whose timeout is `most_s`. OSError, with its number: the
    last of the name's addresses does not answer, or refuses; socket.gaierror: the name is unknown."""
    until_s, why = time.monotonic() + most_s, 0
    for family, kind, protocol, _, where in socket.getaddrinfo(*address, type=socket.SOCK_STREAM):
        wire = socket.socket(family, kind, protocol)
        try:
            if not (why := _connected(wire, where, until_s)):
                wire.settimeout(most_s)
                return wire
        except BaseException:
            wire.close()
            raise
        wire.close()
    raise OSError(why, os.strerror(why))


def _connected(wire: socket.socket, where: tuple[object, ...], until_s: float) -> int:
    """0 once it is connected, else the number of the error."""
    wire.setblocking(False)
    why = wire.connect_ex(where)
    if why != errno.EINPROGRESS:
        return why
    poll = select.poll()
    poll.register(wire, select.POLLOUT)
    if not poll.poll(max(until_s - time.monotonic(), 0) * 1e3):
        return errno.ETIMEDOUT
    return wire.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
