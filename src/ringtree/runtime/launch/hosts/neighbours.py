"""Agents of one host that was given by several names: their ranks share its cores and devices."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import socket
from collections.abc import Iterable

NAMESPACES = ("mnt", "pid")
"""Containers of one network are hosts of their own: each has its devices."""


class HostMark:
    """A socket of this agent's, which agents of this host alone reach, and its namespaces: `text`, "" where there are
    none. Whoever reaches it has the same kernel, so that the namespaces' numbers can be compared."""

    def __init__(self) -> None:
        self.text = ""
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with contextlib.suppress(OSError):
            spaces = [os.readlink(f"/proc/self/ns/{name}") for name in NAMESPACES]
            name = secrets.token_hex(16)
            self._listener.bind(_address(name))
            self._listener.listen()
            self.text = " ".join([name, *spaces])

    def alike(self, texts: Iterable[str]) -> list[str]:
        """The marks of these that are of this host."""
        spaces = self.text.split(" ")[1:]
        return [text for text in texts if text and text.split(" ")[1:] == spaces and _reaches(text.split(" ")[0])]

    def close(self) -> None:
        """Ends the socket."""
        self._listener.close()


def _address(name: str) -> str:
    return f"\0ringtree-agent-{name}"


def _reaches(name: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK) as probe:
        return probe.connect_ex(_address(name)) in (0, errno.EAGAIN)
