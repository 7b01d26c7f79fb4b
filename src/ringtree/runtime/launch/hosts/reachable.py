"""The address of rank 0's host that all other hosts reach: its agent opens a port, and the other agents try it."""

from __future__ import annotations

import contextlib
import hmac
import ipaddress
import os
import secrets
import selectors
import socket
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ringtree.runtime.bootstrap.environment import ADDRESS, INTERFACE, rendezvous_address
from ringtree.runtime.bootstrap.network.addresses import listen_everywhere
from ringtree.runtime.bootstrap.network.interfaces import candidates, chosen_interface

TRY_S = 3.0
"""Seconds until an address is taken as one that is out of reach."""
TOKEN_BYTES = 16


class Doorway:
    """A port of this host that answers whoever connects by a token, and is kept for rank 0 afterwards: other hosts know
    by the token that they have reached this host, since an address as docker0's is one of theirs, too."""

    def __init__(self, selector: selectors.BaseSelector) -> None:
        self._token = secrets.token_hex(TOKEN_BYTES)
        self._selector = selector
        self._listener = listen_everywhere()
        self._listener.setblocking(False)
        self._kept: socket.socket | None = None
        selector.register(self._listener, selectors.EVENT_READ, self._answer)

    def contact(self) -> dict[str, Any]:
        """The addresses in the order in which to try them, port and token."""
        return {"addresses": candidates(), "port": self._listener.getsockname()[1], "token": self._token}

    def keep(self, rank_0: str) -> None:
        """Ends the answers. The port stays bound at rank 0's address, so that no other program takes it before rank 0
        listens there: two sockets may be bound to it as long as one listens at most."""
        at = rendezvous_address({ADDRESS: rank_0})
        assert isinstance(at, tuple)
        self._selector.unregister(self._listener)
        self._listener.close()
        self._kept = socket.socket(socket.AF_INET6 if ":" in at[0] else socket.AF_INET, socket.SOCK_STREAM)
        self._kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with contextlib.suppress(OSError):  # rank 0 reports it
            self._kept.bind(at)

    def _answer(self) -> None:
        with contextlib.suppress(OSError):
            connection, _ = self._listener.accept()
            with connection:
                connection.send(bytes.fromhex(self._token))


def check_interface() -> None:
    """ValueError: this host has no interface as RINGTREE_INTERFACE names it, alike for all hosts."""
    try:
        chosen_interface()
    except ValueError as error:
        named = os.environ[INTERFACE].strip("[]")
        hint = "; an address is one host's, and several need a name" if _is_address(named) else ""
        raise ValueError(f"{error}{hint}") from None


def _is_address(text: str) -> bool:
    try:
        return bool(ipaddress.ip_address(text))
    except ValueError:
        return False


def reached(addresses: Sequence[str], port: int, token: str) -> list[str]:
    """The addresses at which this host reaches the host with that token."""
    with ThreadPoolExecutor(len(addresses) or 1) as pool:
        found = pool.map(lambda address: _reaches(address, port, bytes.fromhex(token)), addresses)
        return [address for address, reaches in zip(addresses, found, strict=True) if reaches]


def _reaches(address: str, port: int, token: bytes) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((address, port), timeout=TRY_S) as connection:
        return hmac.compare_digest(connection.recv(TOKEN_BYTES, socket.MSG_WAITALL), token)
    return False
