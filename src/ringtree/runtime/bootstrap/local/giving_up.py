"""The reason for which a member of a bootstrap gives up, as the other members get it."""

from __future__ import annotations

from typing import TypeVar

from ringtree.runtime.bootstrap.bootstrap import BootstrapGroup
from ringtree.runtime.bootstrap.interruption import of_kernel
from ringtree.runtime.bootstrap.local.socket_messages import interrupted, with_limit

Own = TypeVar("Own", bound=Exception)


class GivingUp:
    """The errors by which a member gives up of its own accord. Whatever else ends its wait is an interruption: Ctrl-C,
    or the exception of a signal's handler, whose class and text may be those of any error."""

    def __init__(self, group: BootstrapGroup) -> None:
        self._group = group
        self._own: Exception | None = None

    def own(self, error: Own) -> Own:
        """Notes an error of the member's own, and returns it."""
        self._own = error
        return error

    def check(self, absent: list[int]) -> None:
        """The group's liveness check, whose errors are the member's own."""
        try:
            self._group.check(absent)
        except RuntimeError as error:
            self._own = error
            raise

    def to_others(self, error: BaseException) -> Exception:
        """The error of the other members where this one ends its wait with that one."""
        if isinstance(error, Exception) and (error is self._own or of_kernel(error)):
            return with_limit(self._group, error)
        return error if isinstance(error, MemoryError) else interrupted(self._group, error)
