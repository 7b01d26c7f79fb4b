"""The group of those who are left takes the place of one that lost members."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from ringtree.errors import Mismatch, PeerDied, Poisoned, TimedOut
from ringtree.ir.digest import sha256
from ringtree.runtime.bootstrap.bootstrap import Abandoned
from ringtree.runtime.communicator.membership.survivors import Survivors

if TYPE_CHECKING:
    from ringtree.runtime.communicator.communicator import Communicator
    from ringtree.runtime.engines.engine import GroupParameters


def shrink_group(comm: Communicator, leave_out: list[int], timeout_s: float | None) -> Communicator:
    """See Communicator.shrink."""
    timeout_s = comm.timeout_s if timeout_s is None else timeout_s
    with suppress(Mismatch, PeerDied, Poisoned, TimedOut):
        comm.check_liveness("shrink")  # a failure that this rank has not heard of is written down
    try:
        made, members = _made(comm, leave_out, timeout_s)
    except BaseException as error:
        comm._tell_cause(error)
        close_tree(comm)
        raise
    made.former_ranks, made.first_cause = tuple(members), comm._endpoint.failure
    made.set_timeout(comm.timeout_s)
    if absent := [rank for rank in range(comm.size) if rank not in members]:
        named = ", ".join(comm._parameters.names[rank] for rank in absent)
        comm._endpoint.poison(f"the group has gone on without rank{'s' * (len(absent) > 1)} {named}")
    close_tree(comm)
    return made


def _made(comm: Communicator, leave_out: list[int], timeout_s: float) -> tuple[Communicator, list[int]]:
    """The new group, once all of its members have it; and their ranks in this one."""
    survivors = Survivors(comm._endpoint, comm.rank, comm.size, timeout_s, leave_out)
    while True:
        members = survivors.members()
        made: Communicator | None = None
        try:
            made = comm._of(_parameters(comm, survivors, members, timeout_s))
        except (Mismatch, PeerDied, Poisoned, TimedOut, TimeoutError, Abandoned, RuntimeError):
            pass  # another member has failed: they begin anew
        try:
            if survivors.made(made is not None) and made is not None:
                return made, members
        except BaseException:
            if made is not None:
                made.close()
            raise
        if made is not None:
            made.close()


def _parameters(
    comm: Communicator, survivors: Survivors, members: Sequence[int], timeout_s: float
) -> GroupParameters:
    """Of the members' new group."""

    def check_liveness(_: list[int]) -> None:
        if len(survivors.running(members)) < len(members):
            raise Abandoned("a survivor ended while the survivors made their group")

    digest = sha256(f"{comm.key}/shrink{survivors.turn}".encode()).hexdigest()
    return comm._parameters._replace(
        key=f"shrunk-{digest[:32]}",
        rank=members.index(comm.rank),
        names=tuple(map(str, range(len(members)))),
        timeout_s=timeout_s,
        check_liveness=check_liveness,
        slots=0,
        inherited=None,
    )


def close_tree(comm: Communicator) -> None:
    """Closes a group, and all that were made from it."""
    for made in list(comm._offspring):
        close_tree(made)
    with suppress(Mismatch, PeerDied, Poisoned, TimedOut):
        comm.close()
