"""The end of communicators that a program has freed: at once, or when the last call that uses one has ended.

MPI's rule: Free returns at once, and calls that were started before it end as they would have. No thread waits for
them here: the end of a request, and the next Free, look for communicators that nothing uses any more, and the end of
the process closes the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import RLock
from weakref import WeakValueDictionary

from ringtree.runtime.communicator.communicator import Communicator

Groups = Sequence[Communicator]
"""The communicators that a Comm consists of, in the order in which they are left."""

freed: list[Groups] = []
"""Communicators that the program has freed, and calls still use."""
_turn = RLock()  # a signal's handler may come here, too


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
    """Closes these communicators where nothing uses them; keeps them for `close_unused` otherwise."""
    close_unused()
    with _turn:
        if _in_use(groups):
            freed.append(groups)
        else:
            _close(groups)


def close_unused() -> None:
    """Closes the freed communicators that nothing uses any more."""
    with _turn:
        for groups in freed.copy():
            if not _in_use(groups):
                _close(groups)
                freed.remove(groups)


def settle(groups: Groups) -> None:
    """Waits until all that this rank has started in these communicators has ended, as long as their timeout."""
    for group in groups:
        group._settle()


def _in_use(groups: Groups) -> bool:
    return id(groups[-1]) in _leases or any(group._in_use() for group in groups)


def _close(groups: Groups) -> None:
    for group in groups:
        group.close()
