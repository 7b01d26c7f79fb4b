"""Lanes to ranks of other hosts: each rank listens, and all learn where and with which proof."""

from __future__ import annotations

import hashlib
import os
import secrets
import socket
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from ringtree.runtime.bootstrap.bootstrap import NetworkBootstrap
from ringtree.runtime.bootstrap.contact import shown
from ringtree.runtime.bootstrap.interfaces import INTERFACE, interface_of
from ringtree.runtime.engines.engine import GroupParameters, native_module

PROBE_S = 5.0
"""Seconds that a rank of another host may take to accept a first connection."""
NO_PROOF = bytes(32)
CONNECTIONS, MOST_CONNECTIONS = "8", 15

Address = tuple[str, int, str, str]
"""Numeric address, port, nonce, name of the interface for users."""


def most_connections() -> int:
    """Returns the most connections that long payloads take to a peer (RINGTREE_CONNECTIONS). ValueError if that is not
    0 to 15."""
    text = os.environ.get("RINGTREE_CONNECTIONS", CONNECTIONS)
    if not text.isdecimal() or int(text) > MOST_CONNECTIONS:
        raise ValueError(f"RINGTREE_CONNECTIONS is {text!r}: expected 0 to {MOST_CONNECTIONS}")
    return int(text)


class Listening:
    """A rank that the ranks of other hosts can connect to. `address` is what they need, as a small value."""

    def __init__(self, parameters: GroupParameters) -> None:
        self._parameters = parameters
        self._bootstrap = cast("NetworkBootstrap", parameters.bootstrap)
        self.latency_s = self._bootstrap.latency_s
        self.machines = self._bootstrap.machines(parameters.bootstrap_group())
        self._socket = self._bootstrap.listener()
        host, port, *_ = self._socket.getsockname()
        self.address: Address = (host, port, secrets.token_hex(16), interface_of(host))

    def probe(self, hosts: Sequence[int], addresses: Sequence[Address]) -> None:
        """Finds out whether the hosts reach each other, before a call hangs: one rank of each connects once to one of
        each other. All members raise the same RuntimeError, which names both ends, where they do not."""
        group = self._parameters.bootstrap_group()
        found = self._bootstrap.exchange(replace(group, key=f"{group.key}/probed"), self._probed(hosts, addresses))
        if failures := [failure for failure in found if failure]:
            raise RuntimeError(failures[0])

    def _probed(self, hosts: Sequence[int], addresses: Sequence[Address]) -> str:
        """The ranks of its part that this rank cannot reach, in words; "" where it reaches all."""
        me = self._parameters.rank
        beside = [rank for rank, host in enumerate(hosts) if host == hosts[me]]
        for host in sorted(set(hosts) - {hosts[me]}):
            there = [rank for rank, on in enumerate(hosts) if on == host]
            if beside[host % len(beside)] != me:  # one rank of this host tries that host
                continue
            peer = there[hosts[me] % len(there)]
            published, port, _, interface = addresses[peer]
            at = self._bootstrap.address_of(self._parameters.names[peer], published)
            try:
                socket.create_connection((at, port), min(PROBE_S, self._parameters.timeout_s)).close()
            except OSError as error:
                return self._unreached(peer, shown(at, port), interface, str(error))
        return ""

    def _unreached(self, peer: int, at: str, interface: str, why: str) -> str:
        mine, theirs = (f"rank {self._parameters.names[rank]}" for rank in (self._parameters.rank, peer))
        own, others = (f" ({name})" if name else "" for name in (self.address[3], interface))
        return (
            f"{mine} at {self.address[0]}{own} does not reach {theirs} at {at}{others}: {why}. Without {INTERFACE} a "
            f"rank listens where it reached rank 0: set {INTERFACE} on {theirs}'s host to an interface or address that "
            "the other hosts reach"
        )

    def network(self, hosts: Sequence[int], addresses: Sequence[Address]) -> Any:
        """The native Network, which takes the socket over."""
        key, me = self._parameters.key, self._parameters.rank
        peers: list[tuple[str, int, bytes, bytes]] = []
        for peer, (host, port, nonce, _) in enumerate(addresses):
            if hosts[peer] == hosts[me]:
                peers.append(("", 0, NO_PROOF, NO_PROOF))
                continue
            to_it = self._bootstrap.proof(key, me, peer, nonce)
            from_it = self._bootstrap.proof(key, peer, me, self.address[2])
            peers.append((self._bootstrap.address_of(self._parameters.names[peer], host), port, to_it, from_it))
        group = int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "little")
        return native_module().tcp(
            list(hosts),
            listener=self._socket.detach(),
            group=group,
            peers=peers,
            connections=most_connections(),
        )

    def close(self) -> None:
        """Closes the listening socket, where no group came of it."""
        self._socket.close()
