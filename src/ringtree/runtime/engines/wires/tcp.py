"""The wire over TCP: each rank listens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ringtree.runtime.bootstrap.bootstrap import NetworkBootstrap
from ringtree.runtime.engines.engine import native_module
from ringtree.runtime.engines.wires import Remote


class Listening:
    """A listening socket. Its address: numeric address, port."""

    def __init__(self, bootstrap: NetworkBootstrap) -> None:
        self._socket = bootstrap.listener()
        self.address: tuple[str, int] = self._socket.getsockname()[:2]

    def network(self, hosts: list[int], group: int, members: Sequence[Remote]) -> Any:
        """The native Network, which takes the socket over."""
        peers = [(*(m.address or ("", 0)), m.to_it, m.from_it) for m in members]
        return native_module().tcp(hosts, listener=self._socket.detach(), group=group, peers=peers)

    def close(self) -> None:
        """Where no group came of it."""
        self._socket.close()
