"""Calls by which a group goes on with other members."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from ringtree.runtime.bootstrap.environment import patience
from ringtree.runtime.communicator import membership
from ringtree.runtime.communicator.arguments import described, whole
from ringtree.runtime.communicator.groups import Groups

if TYPE_CHECKING:
    from ringtree.runtime.communicator.communicator import Communicator


class Elastic(Groups):
    """A group that another one takes the place of, with fewer members or more."""

    @property
    def timeout_s(self) -> float:
        """See Communicator."""
        raise NotImplementedError

    former_ranks: tuple[int, ...] = ()
    """Each member's rank in the group before, -1 of one that has joined, in a group that `shrink` or `grow` has made;
    empty in others."""
    first_cause: str = ""
    """The failure of the group before, as its errors have it, in a group that `shrink` has made; "" without one."""

    def shrink(self, leave_out: Sequence[int] = (), *, timeout_s: float | None = None) -> Communicator:
        """The communicator of the ranks that are left, in their order, counted from 0 without gaps: a world of its own,
        whose `former_ranks` are their ranks here. All ranks that go on call it, in a group that has failed (after
        PeerDied, TimedOut, Poisoned or Mismatch) or in a healthy one; those that died or have closed the group are left
        out at once, and so are the living ranks that any caller lists in `leave_out`, which do not call it.

        All callers get the same members: a rank that dies meanwhile is left out, too, and the new group is made again
        without it. A rank that neither comes nor dies within `timeout_s` (default: the group's timeout) is left out
        then; where it comes later it gets Poisoned, and so it does in every call here.

        This group, and those made from it, are closed on every caller: make sub-groups and symmetric memory anew from
        the new one. `first_cause` there is how this one failed. Costs some milliseconds. If it raises, this rank has
        left. ValueError: if a rank in `leave_out` is none of the group, or the caller itself. OSError: if this process
        lacks room or descriptors for the new group; the others go on without it.
        """
        if isinstance(leave_out, (str, bytes)) or not isinstance(leave_out, Iterable):
            raise TypeError(f"leave_out is {described(leave_out)}; expected a list of ranks")
        others = sorted({whole(rank, "rank") for rank in leave_out})
        if wrong := [rank for rank in others if not 0 <= rank < self.size or rank == self.rank]:
            raise ValueError(
                f"leave_out has rank {wrong[0]}; expected other ranks than this one, {self.rank}, of 0..{self.size - 1}"
            )
        seconds = patience(self.timeout_s if timeout_s is None else timeout_s)
        return membership.shrink_group(self, others, seconds)  # type: ignore[arg-type]

    def _end_waits(self) -> None:
        """Ends the waits of others for this rank, which shrinks the group and so makes no more calls here or in the
        groups made from it: once one of the group's ranks has died, or left by an error."""
        self._endpoint.fail_if_bereft("shrink")
        if self._endpoint.failure:
            name = self._parameters.names[self.rank]
            for group in self._made_from():
                with suppress(RuntimeError):  # another thread closes it
                    group._endpoint.poison(f"rank {name} shrinks the group that this one was made from")

    def grow(self, count: int | None = None, *, at: str | None = None, timeout_s: float | None = None) -> Communicator:
        """The communicator of these ranks and of `count` processes that call `ringtree.join()`, which get the next
        ranks: a world of its own. All ranks call it alike, in a healthy group; without `count` it takes in those who
        wait to join already, in 0.1 s, and returns this communicator where nobody does.

        `at` is where they meet, the same in `join`: a name on this machine, or file:///path of a file that the hosts
        share (where RINGTREE_SECRET is set, of this user's processes that know it). Without it, the job's own: on one
        machine that of the launcher (RINGTREE_JOB, torchrun's, mpirun's), over hosts the file in RINGTREE_ADDRESS.

        This group, and those made from it, are closed once all have the new one. TimedOut: on all ranks, if fewer than
        `count` have come within `timeout_s` (default: the group's timeout), or one of them failed; the group is then as
        before. ValueError: for a `count`, or a place, that is none.
        """
        if count is not None and whole(count, "count") < 1:
            raise ValueError(f"count is {count!r}; expected at least 1 process, or None for those who wait")
        seconds = patience(self.timeout_s if timeout_s is None else timeout_s)
        return membership.grow_group(self, count, at, seconds)  # type: ignore[arg-type]
