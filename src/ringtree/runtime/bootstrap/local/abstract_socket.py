"""The bootstrap of the processes of one machine: at an abstract unix socket.

The socket's name comes from the user's id and the group's key, and vanishes with the socket: nothing can leak. The
kernel tells where another user's process has taken it, and then the next name serves. The leader collects every
member's value and sends all values to every member, with a descriptor of shared memory where the group asked for one.
So the handshake proves that the members are on one machine, and are the same user's. Groups, sub-groups and symmetric
memory use it.
"""

from __future__ import annotations

from typing import Any

from ringtree.runtime.bootstrap import local
from ringtree.runtime.bootstrap.bootstrap import BootstrapGroup
from ringtree.runtime.bootstrap.local.socket_messages import with_limit


class AbstractSocket:
    """The HostBootstrap of one machine: member 0 leads, and the others come to its socket. Values are None, bool,
    int, float, str, bytes, and list, tuple and dict of them: of these classes, and not of others made from them."""

    def exchange(self, group: BootstrapGroup, value: Any = None) -> list[Any]:
        """Each member's value; shares no memory."""
        return _meet(group, None, value)[1]

    def share(
        self,
        group: BootstrapGroup,
        nbytes: int,
        value: Any = None,
        reserved: int | None = None,
        needed: int | None = None,
    ) -> tuple[int, list[Any]]:
        """A descriptor of memory that the leader makes, and each member's value."""
        exist = nbytes if reserved is None else reserved
        return _meet(group, (nbytes, exist, exist if needed is None else needed), value)

    def hosts(self, group: BootstrapGroup) -> list[int]:
        """One host."""
        return [0] * group.size


ABSTRACT_SOCKET = AbstractSocket()


def _meet(group: BootstrapGroup, memory: tuple[int, int, int] | None, value: Any) -> tuple[int, list[Any]]:
    """`memory` as in `Leader.meet`. A rank is one of the two, and loads the other only where it makes groups."""
    try:
        return local.Leader(group).meet(memory, value) if group.rank == 0 else local.Follower(group).meet(value)
    except OSError as error:
        explained = with_limit(group, error)
        if explained is error:
            raise
        raise explained from None
