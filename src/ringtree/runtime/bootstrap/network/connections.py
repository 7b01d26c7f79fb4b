"""The TCP connections of this process, as its kernel reports them, whichever library has opened them."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass

FIELDS = {"mss_bytes": (16, "I"), "path_mtu_bytes": (60, "I"), "retransmits": (100, "I"), "sent_segments": (136, "I")}
"""Fields of the kernel's struct tcp_info: offset and type."""
ACKED, RECEIVED = (120, "Q"), (128, "Q")
LENGTH = 144


@dataclass(frozen=True, slots=True)
class TcpConnection:
    """An established connection. `nbytes`: of both ways, as far as they were acknowledged; `path_mtu_bytes`: the
    longest packet that the kernel sends on the way."""

    here: str
    there: str
    nbytes: int
    mss_bytes: int
    path_mtu_bytes: int
    retransmits: int
    sent_segments: int


def connections_to(addresses: set[str]) -> list[TcpConnection]:
    """This process's connections to those numeric addresses, that with the most bytes first."""
    found = [connection for connection in _connections() if connection.there in addresses]
    return sorted(found, key=lambda connection: -connection.nbytes)


def _connections() -> Iterator[TcpConnection]:
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # closed meanwhile, no socket, or not connected
            if not os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                continue
            with socket.socket(fileno=os.dup(int(name))) as one:
                if one.family not in (socket.AF_INET, socket.AF_INET6) or one.type != socket.SOCK_STREAM:
                    continue
                there, here = one.getpeername()[0], one.getsockname()[0]
                data = one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, LENGTH).ljust(LENGTH, b"\0")
            acked, received = (struct.unpack_from(kind, data, at)[0] for at, kind in (ACKED, RECEIVED))
            values = {field: struct.unpack_from(kind, data, at)[0] for field, (at, kind) in FIELDS.items()}
            yield TcpConnection(_plain(here), _plain(there), acked + received, **values)


def _plain(address: str) -> str:
    """The address without its zone; IPv4 where IPv6 only wraps it."""
    parsed = ipaddress.ip_address(address.partition("%")[0])
    mapped = getattr(parsed, "ipv4_mapped", None)
    return str(mapped or parsed)
