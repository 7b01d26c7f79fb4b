"""The interfaces by which members of a group meet before they have lanes: they exchange small values.

`local.abstract_socket` serves the processes of one host, and hands them memory in common as well; `network.hosts`
serves those of several hosts, `in_process` the threads of one process. Only the type checker reads them.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Any, Protocol

from ringtree.runtime.bootstrap.bootstrap import BootstrapGroup


class Bootstrap(Protocol):
    """The exchange of small values."""

    def exchange(self, group: BootstrapGroup, value: Any = None) -> list[Any]:
        """Each member's value, in the order of their ranks; returns when all members have come.

        Raises TimeoutError naming the missing members, RuntimeError for a member that contradicts the others.
        """
        ...


class HostBootstrap(Bootstrap, Protocol):
    """A bootstrap among members that can share memory, all of them or those of one host each."""

    def share(
        self,
        group: BootstrapGroup,
        nbytes: int,
        value: Any = None,
        reserved: int | None = None,
        needed: int | None = None,
    ) -> tuple[int, list[Any]]:
        """A descriptor, the caller's own, of `nbytes` zeroed bytes of memory that all members share, and each
        member's value. `reserved`: how many of the bytes exist; all of them if it is None. `needed`: how
        many there must be room for, because members reserve more of them at once; as many if it is None.

        Raises as `exchange` does, and MemoryError where the machine has no room.
        """
        ...

    def hosts(self, group: BootstrapGroup) -> list[int]:
        """The number of each member's host: members with one number can share memory."""
        ...


class NetworkBootstrap(HostBootstrap, Protocol):
    """A bootstrap of members on several hosts: `share` gives each host memory of its own. `latency_s`: a message's time
    between hosts, 0 where it is unknown; the same for all members."""

    latency_s: float

    def machines(self, group: BootstrapGroup) -> list[int]:
        """A number of each member's machine: hosts that are containers of one share its cores."""
        ...

    def listener(self) -> socket.socket:
        """A listening socket at which the members on other hosts reach this one."""
        ...

    def address_of(self, name: str, published: str) -> str:
        """The numeric address at which this member reaches the one of that name, whose listener is at `published`."""
        ...

    def proof(self, act: str, key: str, source: int, target: int, nonces: Sequence[str]) -> bytes:
        """The 32 bytes that member `source` of the group with that key presents to member `target` in that act.
        `nonces`: what each of the two has made for this group, the source's first."""
        ...
