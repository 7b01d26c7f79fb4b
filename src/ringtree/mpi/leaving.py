"""The end of communicators that a program has freed: at once, or when the last call that uses one has ended.

MPI's rule: calls that were started before Free end as they would have. No thread waits for them here: the end of a
request, and the next Free, look for communicators that nothing uses any more, and the end of the process closes the
rest. To close one takes up to a second where a peer has not begun the last call. What is wrong in a communicator that
is left so is no error of the call that looks: its own requests have raised it, and its peers do.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from threading import RLock
from weakref import WeakValueDictionary

from ringtree.errors import Mismatch, PeerDied, Poisoned, TimedOut
from ringtree.runtime.communicator.communicator import Communicator

Groups = Sequence[Communicator]
"""The communicators that a Comm consists of, in the order in which they are left."""

freed: list[Groups] = []
"""Communicators that the program has freed, and calls still use."""
_turn = RLock()  # for a look at the list; a signal's handler may come here, too


class Lease:
    """The right to start calls on communicators after they were freed: a persistent request has it."""

    __slots__ = ("__weakref__", "_groups")

    def __init__(self, groups: Groups) -> None:
        self._groups = groups


_leases: WeakValueDictionary[int, Lease] = WeakValueDictionary()
"""Leases by the identity of the last communicator, which the lease keeps."""


def lease(groups: Groups) -> Lease:
    """The lease of these communicators, which whoever needs it keeps."""
    with _turn:
        found = _leases.get(id(groups[-1]))
        if found is None:
            found = _leases[id(groups[-1])] = Lease(groups)
        return found


def leave(groups: Groups) -> None:
    """Closes these communicators where nothing uses them; keeps them for `close_unused` otherwise. Raises what is wrong
    in them, unless it is for their requests to raise it."""
    requested = [group._has_requests() for group in groups]
    with _turn:
        used = _in_use(groups)
        if used:
            freed.append(groups)
    if not used:
        try:
            _close(groups)
        except (PeerDied, Mismatch, TimedOut, Poisoned):  # all the same it is closed
            if not any(requested):
                raise
    close_unused()


def close_unused() -> None:
    """Closes the freed communicators that nothing uses any more: out of the list before, for a signal's handler or
    another thread may look meanwhile."""
    with _turn:
        unused = [groups for groups in freed if not _in_use(groups)]
        freed[:] = [groups for groups in freed if groups not in unused]
    for groups in unused:
        with suppress(Exception):
            _close(groups)


def settle(groups: Groups) -> None:
    """Waits until all that this rank has started in these communicators has ended, as long as their timeout."""
    for group in groups:
        group._settle()


def _in_use(groups: Groups) -> bool:
    return id(groups[-1]) in _leases or any(group._in_use() for group in groups)


def _close(groups: Groups) -> None:
    for group in groups:
        group.close()
