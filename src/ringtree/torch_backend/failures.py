"""The errors that a torch program catches: ringtree's, which are torch's DistBackendError too."""

from __future__ import annotations

from collections.abc import Sequence

from torch.distributed import DistBackendError

from ringtree import errors


class PeerDied(errors.PeerDied, DistBackendError):
    """A rank of the group ended: `rank`, by its number in the world."""


class Mismatch(errors.Mismatch, DistBackendError):
    """Ranks called different things."""


class TimedOut(errors.TimedOut, DistBackendError):
    """A rank waited for longer than the timeout."""


class Poisoned(errors.Poisoned, DistBackendError):
    """The group failed before, or was aborted."""


FAILURES = (errors.PeerDied, errors.Mismatch, errors.TimedOut, errors.Poisoned)
"""Errors that end a group: it can only be destroyed then. All others are the caller's mistakes."""


def with_text(error: Exception, text: str, ranks: Sequence[int]) -> Exception:
    """One of FAILURES as torch's programs get it, with another text. `ranks`: of the group's members in the world; the
    communicator's error has the rank's number in the group."""
    if isinstance(error, errors.PeerDied):
        number: int = error.args[1]
        return PeerDied(text, ranks[number] if 0 <= number < len(ranks) else number)
    if isinstance(error, errors.Mismatch):
        return Mismatch(text)
    return TimedOut(text) if isinstance(error, errors.TimedOut) else Poisoned(text)
