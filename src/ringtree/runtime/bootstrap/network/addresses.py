"""Addresses of this host: where rank 0's server listens, and where a rank is reached from other hosts."""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import os
import socket

from ringtree.runtime.bootstrap.network.contact import shown

ANY = ("::", "0.0.0.0")
"""The address of a socket that listens at all addresses."""


def is_loopback(host: str) -> bool:
    """Whether a name or numeric address reaches its own host only."""
    try:
        return host == "localhost" or ipaddress.ip_address(host.split("%")[0]).is_loopback
    except ValueError:
        return False


def is_elsewhere(host: str) -> bool:
    """Whether a name or numeric address is none of this host's own, so that nobody here can listen at it."""
    with contextlib.suppress(socket.gaierror):
        for family, kind, *_, where in socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM):
            with contextlib.closing(socket.socket(family, kind)) as probe:
                try:
                    probe.bind(where)
                    return False
                except OSError as error:
                    if error.errno != errno.EADDRNOTAVAIL:
                        return False
        return True
    return False


def listen(host: str, port: int) -> socket.socket:
    """A listening socket at that address of this host; at all addresses where it is none of this host's own (behind a
    translation of addresses). RuntimeError names RINGTREE_ADDRESS."""
    cannot = f"rank 0 cannot listen at RINGTREE_ADDRESS={shown(host, port)}"
    try:
        family, *_, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except socket.gaierror as error:
        raise RuntimeError(f"{cannot} ({error}); expected an address of this host") from None
    for at in (where, ("", port)):
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(at)
            listener.listen(1024)
            return listener
        except OSError as error:
            listener.close()
            if error.errno != errno.EADDRNOTAVAIL or at[0] == "":
                raise RuntimeError(f"{cannot} ({error}); expected a free port of this host") from None
    raise AssertionError("one of the two was returned or refused")


def listen_everywhere() -> socket.socket:
    """A listening socket at a free port of all addresses of this host, IPv6 and IPv4."""
    with contextlib.suppress(OSError, ValueError):  # a host without IPv6
        return socket.create_server(("", 0), family=socket.AF_INET6, backlog=1024, dualstack_ipv6=True)
    return socket.create_server(("", 0), backlog=1024)


def same_kernel() -> str:
    """A text that processes of different machines do not share; those of one machine need not be one host."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except OSError:
        return os.uname().nodename
