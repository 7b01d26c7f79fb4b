"""Lanes to ranks of other hosts: each rank listens, and all learn where and with which proof."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from typing import Any, cast

from ringtree.runtime.bootstrap.bootstrap import NetworkBootstrap
from ringtree.runtime.engines.engine import GroupParameters, native_module

NO_PROOF = bytes(32)

Address = tuple[str, int, str]
"""Numeric address, port, nonce."""


class Listening:
    """A rank that the ranks of other hosts can connect to. `address` is what they need, as a small value."""

    def __init__(self, parameters: GroupParameters) -> None:
        self._parameters = parameters
        self._bootstrap = cast("NetworkBootstrap", parameters.bootstrap)
        self.latency_s = self._bootstrap.latency_s
        self.machines = self._bootstrap.machines(parameters.bootstrap_group())
        self._socket = self._bootstrap.listener()
        host, port, *_ = self._socket.getsockname()
        self.address: Address = (host, port, secrets.token_hex(16))

    def network(self, hosts: Sequence[int], addresses: Sequence[Address]) -> Any:
        """The native Network, which takes the socket over."""
        key, me = self._parameters.key, self._parameters.rank
        peers: list[tuple[str, int, bytes, bytes]] = []
        for peer, (host, port, nonce) in enumerate(addresses):
            if hosts[peer] == hosts[me]:
                peers.append(("", 0, NO_PROOF, NO_PROOF))
                continue
            to_it = self._bootstrap.proof(key, me, peer, nonce)
            from_it = self._bootstrap.proof(key, peer, me, self.address[2])
            peers.append((self._bootstrap.address_of(self._parameters.names[peer], host), port, to_it, from_it))
        group = int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "little")
        return native_module().tcp(list(hosts), listener=self._socket.detach(), group=group, peers=peers)

    def close(self) -> None:
        """Where no group came of it."""
        self._socket.close()
