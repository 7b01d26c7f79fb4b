"""Lanes to ranks of other hosts: each rank has an end of a wire, and all learn the others' addresses and proofs."""

from __future__ import annotations

import contextlib
import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from ringtree.runtime.bootstrap.bootstrap import NetworkBootstrap
from ringtree.runtime.engines.engine import GroupParameters
from ringtree.runtime.engines.wires import VARIABLE, End, Remote, chosen, end

Address = tuple[str, Any, str, str]
"""Name of the wire, its end's address, a nonce, and why there is no such end."""


class Listening:
    """A rank that the ranks of other hosts can connect to. `address` is what they need, as a small value. Where this
    rank lacks the wire, that is in its address, so that all ranks raise."""

    def __init__(self, parameters: GroupParameters) -> None:
        self._parameters = parameters
        self._bootstrap = cast("NetworkBootstrap", parameters.bootstrap)
        self.latency_s = self._bootstrap.latency_s
        self.machines = self._bootstrap.machines(parameters.bootstrap_group())
        self._end: End | None = None
        wire, lacking = "", ""
        try:
            wire = chosen()
            self._end = end(wire, self._bootstrap)
        except (RuntimeError, ValueError) as error:
            lacking = str(error)
        self.address: Address = (wire, self._end and self._end.address, secrets.token_hex(16), lacking)

    def network(self, hosts: Sequence[int], addresses: Sequence[Address]) -> Any:
        """The native Network, which takes the end over. RuntimeError where the ranks have no wire in common."""
        key, me = self._parameters.key, self._parameters.rank
        if refused := self._refused(addresses):
            meeting = self._parameters.bootstrap_group()
            with contextlib.suppress(RuntimeError, TimeoutError):  # a rank that ends now would be all that others see
                self._bootstrap.exchange(replace(meeting, key=f"{key}/refused"))
            raise RuntimeError(refused)
        assert self._end is not None
        members: list[Remote] = []
        for peer, (_, address, nonce, _) in enumerate(addresses):
            if hosts[peer] == hosts[me]:
                members.append(Remote(None))
                continue
            to_it = self._bootstrap.proof(key, me, peer, nonce)
            from_it = self._bootstrap.proof(key, peer, me, self.address[2])
            members.append(Remote(address, to_it, from_it))
        group = int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "little")
        return self._end.network(list(hosts), group, members)

    def _refused(self, addresses: Sequence[Address]) -> str:
        """Why the ranks have no wire in common, the same on all; "" where they have one."""
        names = self._parameters.names
        for name, (_, _, _, lacking) in zip(names, addresses, strict=True):
            if lacking:
                return f"rank {name}: {lacking}"
        first, *_ = addresses[0]
        for name, (wire, *_) in zip(names, addresses, strict=True):
            if wire != first:
                return (
                    f"rank {names[0]} has the wire {first} and rank {name} {wire}: "
                    f"set {VARIABLE} to the same on all ranks"
                )
        return ""

    def close(self) -> None:
        """Where no group came of it."""
        if self._end is not None:
            self._end.close()
