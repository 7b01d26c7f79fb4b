"""The wire over TCP: each rank listens."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ringtree.runtime.bootstrap.environment import INTERFACE
from ringtree.runtime.bootstrap.network.addresses import ANY, is_loopback
from ringtree.runtime.bootstrap.network.contact import shown
from ringtree.runtime.bootstrap.network.interfaces import interface_of
from ringtree.runtime.engines.engine import native_module
from ringtree.runtime.engines.wires import Remote

if TYPE_CHECKING:
    from ringtree.runtime.bootstrap.protocols import NetworkBootstrap

PROBE_S = 5.0
"""Seconds that a rank of another host may take to accept a first connection."""
MEASURED_CONNECTIONS, MOST_CONNECTIONS = 8, 15


def connections(env: Mapping[str, str] | None = None) -> int | None:
    """Returns the number of connections that long payloads take to a peer (RINGTREE_CONNECTIONS); None where it is
    unset, and to be measured. ValueError if it is not 0 to 15."""
    text = (os.environ if env is None else env).get("RINGTREE_CONNECTIONS")
    if text is None:
        return None
    if not text.isdecimal() or int(text) > MOST_CONNECTIONS:
        raise ValueError(f"RINGTREE_CONNECTIONS is {text!r}: expected 0 to {MOST_CONNECTIONS}")
    return int(text)


class TcpEnd:
    """A listening socket. Its address: numeric address, port, name of the interface for users."""

    def __init__(self, bootstrap: NetworkBootstrap) -> None:
        self._connections = connections()
        self._bootstrap = bootstrap
        self._socket = bootstrap.listener()
        host, port, *_ = self._socket.getsockname()
        self.address: tuple[str, int, str] = (host, port, interface_of(host))

    def unreached(self, name: str, remote: Remote, timeout_s: float) -> str:
        """The reason why rank `name`, whose end this is, does not reach that one; "" where it does."""
        host, port, interface = self._of(remote)
        try:
            socket.create_connection((host, port), min(PROBE_S, timeout_s)).close()
        except OSError as error:
            here = "" if self.address[0] in ANY else f" at {self.address[0]}"
            own, others = (f" ({at})" if at else "" for at in (self.address[2], interface))
            there = f"rank {remote.name} at {shown(host, port)}{others}"
            why = f"Without {INTERFACE} a rank listens where it reached rank 0"
            if is_loopback(host):
                why = "That is the loopback interface, which reaches its own host only"
            return (
                f"rank {name}{here}{own} does not reach {there}: {error}. {why}: set {INTERFACE} on "
                f"rank {remote.name}'s host to an interface or address that the other hosts reach"
            )
        return ""

    def network(self, hosts: list[int], group: int, members: Sequence[Remote]) -> Any:
        """Returns the native Network, which takes the socket over."""
        peers = [(*self._of(m)[:2], m.to_it, m.from_it, m.answer_to_it, m.answer_from_it) for m in members]
        alone = sum(member.address is None for member in members) == 1  # else ranks share the links of this host
        given = self._connections
        return native_module().tcp(
            hosts,
            listener=self._socket.detach(),
            group=group,
            peers=peers,
            connections=given if given is not None else MEASURED_CONNECTIONS if alone else 1,
            measures=given is None and alone,
        )

    def _of(self, remote: Remote) -> tuple[str, int, str]:
        """The address at which this rank reaches that one."""
        if remote.address is None:
            return "", 0, ""
        published, port, interface = remote.address
        return self._bootstrap.address_of(remote.name, published), port, interface

    def close(self) -> None:
        """Closes the socket, where no group came of it."""
        self._socket.close()
