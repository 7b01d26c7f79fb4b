"""Lanes to ranks of other hosts: each rank makes its end of a wire, and all learn the others' and their proofs."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from ringtree.ir.digest import sha256
from ringtree.runtime.engines.engine import GroupParameters
from ringtree.runtime.engines.wires import VARIABLE, End, Remote, chosen, end

if TYPE_CHECKING:
    from ringtree.runtime.bootstrap.protocols import NetworkBootstrap

Address = tuple[str, Any, str, str]
"""Name of the wire, its end's address, a nonce, and the reason why there is no such end."""
OPENS, ANSWERS = "opens", "answers"
"""The act in which a rank presents a proof: what is presented in one is no proof in the other."""


class NetworkEnd:
    """A rank that the ranks of other hosts can connect to. `address`: its small value for them."""

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
        """Returns the native Network, which takes the end over. RuntimeError, the same on all ranks: where the ranks
        have no wire in common, or in a world where two hosts do not reach each other."""
        key, me = self._parameters.key, self._parameters.rank
        if refused := self._refused(addresses):
            meeting = self._parameters.bootstrap_group()
            with contextlib.suppress(RuntimeError, TimeoutError):  # a rank that ends now would be all that others see
                self._bootstrap.exchange(meeting._replace(key=f"{key}/refused"))
            raise RuntimeError(refused)
        assert self._end is not None
        members: list[Remote] = []
        for peer, (_, address, nonce, _) in enumerate(addresses):
            name = self._parameters.names[peer]
            if hosts[peer] == hosts[me]:
                members.append(Remote(name, None))
                continue
            own = self.address[2]
            proofs = [
                self._bootstrap.proof(act, key, source, target, nonces)
                for act in (OPENS, ANSWERS)
                for source, target, nonces in ((me, peer, (own, nonce)), (peer, me, (nonce, own)))
            ]
            members.append(Remote(name, address, *proofs))
        if self._parameters.inherited is None:  # groups made from a world need not ask again
            self._probe(hosts, members)
        group = int.from_bytes(sha256(key.encode()).digest()[:8], "little")
        return self._end.network(list(hosts), group, members)

    def _refused(self, addresses: Sequence[Address]) -> str:
        """The reason why the ranks have no wire in common, the same on all; "" where they have one."""
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

    def _probe(self, hosts: Sequence[int], members: Sequence[Remote]) -> None:
        """Finds out whether the hosts reach each other, before a call hangs: one rank of each connects once to one of
        each other."""
        group = self._parameters.bootstrap_group()
        found = self._bootstrap.exchange(group._replace(key=f"{group.key}/probed"), self._unreached(hosts, members))
        if failures := [failure for failure in found if failure]:
            raise RuntimeError(failures[0])

    def _unreached(self, hosts: Sequence[int], members: Sequence[Remote]) -> str:
        """The first rank of its part that this rank cannot reach, in words; "" where it reaches all."""
        me, name = self._parameters.rank, self._parameters.names[self._parameters.rank]
        beside = [rank for rank, host in enumerate(hosts) if host == hosts[me]]
        for host in sorted(set(hosts) - {hosts[me]}):
            there = [rank for rank, on in enumerate(hosts) if on == host]
            if beside[host % len(beside)] != me:  # one rank of this host tries that host
                continue
            assert self._end is not None
            peer = members[there[hosts[me] % len(there)]]
            if failure := self._end.unreached(name, peer, self._parameters.timeout_s):
                return failure
        return ""

    def close(self) -> None:
        """Closes the end, where no group came of it."""
        if self._end is not None:
            self._end.close()
