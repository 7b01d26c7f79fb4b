"""Errors between ranks. Each message names the call, the rank, and what was expected.

A user's own mistake (a wrong type, a root that does not exist) is a ValueError or TypeError instead, on that rank only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ringtree._native import Mismatch, PeerDied, Poisoned, TimedOut
else:
    try:  # the native engine's, where it is built: one set of classes for all engines
        from ringtree._native import Mismatch, PeerDied, Poisoned, TimedOut
    except ImportError:

        class PeerDied(RuntimeError):
            """A rank of the group ended: `rank`, by its number in the group (its text has the one in the world)."""

        class Mismatch(RuntimeError):
            """Two ranks called different things; the message names both sides."""

        class TimedOut(RuntimeError):
            """A wait passed its deadline; the message names the waiting rank, the rank it waited for, and the call."""

        class Poisoned(RuntimeError):
            """The group failed before (the message has the cause) and can only be closed."""

    for kind in (PeerDied, Mismatch, TimedOut, Poisoned):
        kind.__module__ = __name__  # where users find them; tracebacks print it
    PeerDied.__str__ = lambda self: str(self.args[0])
    PeerDied.rank = property(lambda self: self.args[1], doc="The rank that ended.")


class RankFailed(RuntimeError):
    """A rank that `spawn` or a `Pool` started raised, or ended without a result: `rank`."""

    def __init__(self, message: str, rank: int) -> None:
        super().__init__(message, rank)
        self.rank = rank

    def __str__(self) -> str:
        return str(self.args[0])


__all__ = ["Mismatch", "PeerDied", "Poisoned", "RankFailed", "TimedOut"]
