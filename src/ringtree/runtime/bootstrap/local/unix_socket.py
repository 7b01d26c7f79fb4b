"""Sockets between the processes of one machine: the core of Python's socket, which a rank has loaded 2 ms sooner.

All else of that module, host names, families as enumerations and files, is for other sockets than these.
"""

from __future__ import annotations

import _socket
import errno
import os
import struct

from ringtree.runtime.linux import of_kernel, readable

_DESCRIPTOR, _CREDENTIALS = struct.Struct("i"), struct.Struct("3i")


class UnixSocket(_socket.socket):
    """A socket of that kind, or the one behind the descriptor `fd`; the end of a block closes it."""

    def __init__(self, kind: int, fd: int | None = None) -> None:
        super().__init__(_socket.AF_UNIX, kind, 0, fd)

    def __enter__(self) -> UnixSocket:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def accept(self) -> UnixSocket:
        """The next connection."""
        fd, _ = self._accept()  # type: ignore[attr-defined]  # by which Python's own accept makes its socket
        return UnixSocket(self.type, fd)

    def send_at_once(self, message: bytes, address: str) -> None:
        """Sends a message without connection; BlockingIOError where the receiver has no room for it."""
        self.sendto(message, _socket.MSG_DONTWAIT, address)

    def send_with(self, fd: int, message: bytes) -> None:
        """Sends the message and a copy of the descriptor."""
        self.sendmsg([message], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, _DESCRIPTOR.pack(fd))])

    def receive_with(self, most_bytes: int) -> tuple[bytes, int]:
        """The next message, b"" at the end, and the descriptor that came with it, -1 where none did. OSError: where
        this process can have no further descriptor."""
        message, ancillary, flags, _ = self.recvmsg(
            most_bytes, _socket.CMSG_LEN(_DESCRIPTOR.size), _socket.MSG_CMSG_CLOEXEC
        )  # without the flag, programs that this process starts would have it too
        for level, kind, data in ancillary:
            if (level, kind) == (_socket.SOL_SOCKET, _socket.SCM_RIGHTS):
                return message, _DESCRIPTOR.unpack_from(data)[0]
        if flags & _socket.MSG_CTRUNC:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return message, -1

    def peer(self) -> tuple[int, int]:
        """The user and the number of the process at the other end, as the kernel knows them."""
        credentials = self.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, _CREDENTIALS.size)
        process, user, _ = _CREDENTIALS.unpack(credentials)
        return int(user), int(process)

    def is_readable(self, within_s: float) -> bool:
        """Whether a message, a connection or the other's end comes within that time."""
        return readable(self, within_s)

    def sends(self, message: bytes) -> bool:
        """Sends a message; False where the other end has closed."""
        try:
            self.send(message)
        except ConnectionError as error:
            if not of_kernel(error):
                raise
            return False
        return True

    def received(self, most_bytes: int) -> bytes:
        """The message that has come; b"" at the end."""
        try:
            return self.recv(most_bytes)
        except ConnectionError as error:
            if not of_kernel(error):
                raise
            return b""


def connection() -> UnixSocket:
    """A socket for a connection that keeps the bounds of messages."""
    return UnixSocket(_socket.SOCK_SEQPACKET)


def connectionless() -> UnixSocket:
    """A socket for messages without a connection."""
    return UnixSocket(_socket.SOCK_DGRAM)
