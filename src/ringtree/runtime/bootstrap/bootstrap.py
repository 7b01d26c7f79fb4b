"""The interface by which members of a group meet before they have lanes: they exchange small values.

`ringtree.runtime.bootstrap.abstract_socket` serves the processes of one machine, and hands them memory in common as
well; `in_process` serves the threads of one process. What brings members of several machines together is another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    import socket


class Abandoned(RuntimeError):
    """Raised by a liveness check: this bootstrap ends for all members, and each learns elsewhere how they meet."""


class BootstrapGroup(NamedTuple):
    """The members of one bootstrap. `key`: a text that is equal on all members, and of no other group at the time.

    `rank` is the caller's number among the members, 0 is the leader's; `names`: the members' names for users.
    `subject`: the bootstrap's purpose in words, equal on all members. `check_liveness` is called now and then during
    the wait for members, with the ranks that are known not to have come, and raises when the wait is in vain.
    `build`: the build of the engine that will share the memory, whose layout depends on it.
    """

    key: str
    rank: int
    names: Sequence[str]
    subject: str
    timeout_s: float
    check_liveness: Callable[[list[int]], None] | None = None
    build: str = ""

    @property
    def size(self) -> int:
        """The number of members."""
        return len(self.names)

    def named(self, ranks: Sequence[int]) -> str:
        """`rank 3`, or `ranks 1, 3`: members by their names."""
        names = [self.names[rank] for rank in ranks]
        return f"rank {names[0]}" if len(names) == 1 else f"ranks {', '.join(names)}"

    def check(self, absent: list[int]) -> None:
        """Raises where one of the members has died, and so waiting is in vain."""
        if self.check_liveness is not None:
            self.check_liveness(absent)

    def missing(self, ranks: Sequence[int]) -> TimeoutError:
        """The error for members that did not come in time."""
        return TimeoutError(f"{self.named(ranks)} did not come to {self.subject} within {self.timeout_s:g} s")


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

    def proof(self, key: str, source: int, target: int, nonce: str) -> bytes:
        """The 32 bytes that member `source` of the group with that key presents to member `target`, which made the
        nonce."""
        ...
