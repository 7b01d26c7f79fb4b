"""The bootstrap of ranks on several hosts, and the proof of which ranks share a host.

Two ranks are on one host if one can connect to a unix socket of the other's, whose name is a random number: then the
kernel hands memory from one to the other. Host names, boot ids and addresses prove nothing: containers of one machine
may share them, and hosts made from one image do.
"""

from __future__ import annotations

import errno
import secrets
import socket
from dataclasses import replace
from typing import Any

from ringtree.runtime.bootstrap.abstract_socket import ABSTRACT_SOCKET
from ringtree.runtime.bootstrap.bootstrap import BootstrapGroup
from ringtree.runtime.bootstrap.rendezvous import Rendezvous, RendezvousServer, listen, proof, same_kernel


class MultiHostBootstrap:
    """A HostBootstrap of ranks on one or several hosts: memory is shared by the members of each host."""

    def __init__(self, address: tuple[str, int], secret: bytes, rank: int, size: int, timeout_s: float) -> None:
        self._secret, self._rank = secret, rank
        self._server = RendezvousServer(listen(*address), secret, size) if rank == 0 else None
        try:
            self._meet(address, secret, size, timeout_s)
        except BaseException:  # another attempt may follow
            if self._server:
                self._server.close()
            raise

    def _meet(self, address: tuple[str, int], secret: bytes, size: int, timeout_s: float) -> None:
        rank = self._rank
        self._rendezvous = Rendezvous(address, secret, rank, size, timeout_s)
        self.job = self._rendezvous.job
        self.latency_s = 0.0
        """The latency of a message between hosts: the longest to rank 0's host."""
        names = tuple(map(str, range(size)))
        world = BootstrapGroup(f"{self.job}/hosts", rank, names, f"the job of {size} ranks", timeout_s)
        self.host_of = self._found(world)

    def _found(self, world: BootstrapGroup) -> list[int]:
        """The number of each rank's host, by order of their lowest ranks."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            name = secrets.token_hex(16)
            listener.bind(f"\0ringtree-host-{name}")
            listener.listen(world.size)
            known = self.exchange(world, [name, same_kernel()])
            lowest = next((r for r in range(world.rank) if known[r][1] == same_kernel() and _reaches(known[r][0])), -1)
            lowest = world.rank if lowest < 0 else lowest
            found = self.exchange(replace(world, key=f"{world.key}/found"), [lowest, self._rendezvous.round_trip_s()])
        firsts = [first for first, _ in found]
        kernels = [kernel for _, kernel in known]
        self._machine_of = [kernels.index(kernel) for kernel in kernels]
        numbers = {first: number for number, first in enumerate(sorted(set(firsts)))}
        self.latency_s = max((trip_s / 2 for first, trip_s in found if first), default=0.0)
        return [numbers[first] for first in firsts]

    def exchange(self, group: BootstrapGroup, value: Any = None) -> list[Any]:
        """Each member's value, by way of rank 0."""
        return self._rendezvous.exchange(group, value)

    def share(
        self, group: BootstrapGroup, nbytes: int, value: Any = None, reserved: int | None = None
    ) -> tuple[int, list[Any]]:
        """A descriptor of memory that the members of this host share, and each member's value."""
        values = self.exchange(group, value)
        here = self.here(group)
        check = group.check_liveness
        local = replace(
            group,
            key=f"{group.key}/host {self.host_of[self._rank]}",
            rank=here.index(group.rank),
            names=[group.names[r] for r in here],
            check_liveness=check and (lambda absent: check([here[r] for r in absent])),
        )
        return ABSTRACT_SOCKET.share(local, nbytes, None, reserved)[0], values

    def hosts(self, group: BootstrapGroup) -> list[int]:
        """The number of each member's host."""
        return [self.host_of[int(name)] for name in group.names]

    def machines(self, group: BootstrapGroup) -> list[int]:
        """A number of each member's machine: hosts that are containers of one share its cores."""
        return [self._machine_of[int(name)] for name in group.names]

    def here(self, group: BootstrapGroup) -> list[int]:
        """The members on this host."""
        mine = self.host_of[self._rank]
        return [r for r, host in enumerate(self.hosts(group)) if host == mine]

    def listener(self) -> socket.socket:
        """A listening socket at which the ranks of other hosts reach this one: at the address by which it reached rank
        0, so on a network that all of them are in."""
        family = socket.AF_INET6 if ":" in self._rendezvous.here else socket.AF_INET
        made = socket.socket(family, socket.SOCK_STREAM)
        made.bind((self._rendezvous.here, 0))
        made.listen(1024)
        made.setblocking(False)
        return made

    def proof(self, key: str, source: int, target: int, nonce: str) -> bytes:
        """The proof that member `source` presents to member `target`, whose nonce it is."""
        return proof(self._secret, "lane", key, str(source), str(target), nonce)


def _reaches(name: str) -> bool:
    """Whether the rank that listens under that name is on this host."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK) as probe:
        return probe.connect_ex(f"\0ringtree-host-{name}") in (0, errno.EAGAIN)
