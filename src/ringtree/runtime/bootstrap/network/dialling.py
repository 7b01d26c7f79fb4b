"""The way to another process's socket over TCP: a connection attempt that waits in poll()."""

from __future__ import annotations

import errno
import os
import select
import socket


def dialled(address: tuple[str, int], most_s: float) -> socket.socket:
    """A connection to a name or numeric address and a port, whose timeout is `most_s`; each of a name's addresses has
    that long to answer. OSError, with its number: the last one does not answer, or refuses; socket.gaierror: the name
    is unknown."""
    why = 0
    for family, kind, protocol, _, where in socket.getaddrinfo(*address, type=socket.SOCK_STREAM):
        wire = socket.socket(family, kind, protocol)
        try:
            if not (why := _connected(wire, where, most_s)):
                wire.settimeout(most_s)
                return wire
        except BaseException:
            wire.close()
            raise
        wire.close()
    raise OSError(why, os.strerror(why))


def _connected(wire: socket.socket, where: tuple[object, ...], most_s: float) -> int:
    """0 once it is connected, else the number of the error."""
    wire.setblocking(False)
    why = wire.connect_ex(where)
    if why != errno.EINPROGRESS:
        return why
    poll = select.poll()
    poll.register(wire, select.POLLOUT)
    if not poll.poll(max(most_s, 0) * 1e3):
        return errno.ETIMEDOUT
    return wire.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
