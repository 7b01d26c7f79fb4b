"""The members of a bootstrap, and the errors that concern one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ringtree.runtime.bootstrap.environment import PARENT


class Abandoned(RuntimeError):
    """Raised by a liveness check: this bootstrap ends for all members, and each learns elsewhere how they meet."""


class BootstrapGroup(NamedTuple):
    """The members of one bootstrap. `key`: a text that is equal on all members, and of no other group at the time.

    `rank` is the caller's number among the members, 0 is the leader's; `names`: the members' names for users.
    `subject`: the bootstrap's purpose in words, equal on all members. `check_liveness` is called now and then during
    the wait for members, with the ranks that are known not to have come, and raises when the wait is in vain.
    `build`: the build of the engine that will share the memory, whose layout depends on it. `inherited`: the members
    are in a group already, and each finds by `check_liveness` what has befallen another. `met` is called once all
    members have come: that has used the key up, on all of them alike, whatever befalls one of them then.
    """

    key: str
    rank: int
    names: Sequence[str]
    subject: str
    timeout_s: float
    check_liveness: Callable[[list[int]], None] | None = None
    build: str = ""
    inherited: bool = False
    met: Callable[[], None] | None = None

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

    def complete(self) -> None:
        """Notes that all members have come."""
        if self.met is not None:
            self.met()

    def missing(self, ranks: Sequence[int]) -> TimeoutError:
        """The error for members that did not come in time."""
        hint = ""
        if self.key.startswith(PARENT) and not self.inherited:
            hint = (
                "; this launcher names no job, so only ranks that one process has started find each other: set "
                "RINGTREE_JOB alike for all ranks, and otherwise for every job"
            )
        return TimeoutError(f"{self.named(ranks)} did not come to {self.subject} within {self.timeout_s:g} s{hint}")
