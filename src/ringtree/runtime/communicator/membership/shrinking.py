"""The group of those who are left takes the place of one that lost members."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from ringtree.errors import Mismatch, PeerDied, Poisoned, TimedOut
from ringtree.ir.digest import sha256
from ringtree.runtime.bootstrap.bootstrap import Abandoned
from ringtree.runtime.bootstrap.local.abstract_socket import ABSTRACT_SOCKET
from ringtree.runtime.communicator.membership import over_hosts
from ringtree.runtime.communicator.membership.survivors import Survivors

if TYPE_CHECKING:
    from ringtree.runtime.communicator.communicator import Communicator
    from ringtree.runtime.engines.engine import GroupParameters

FAILURES = (Mismatch, PeerDied, Poisoned, TimedOut)
OF_OTHERS = (*FAILURES, TimeoutError, RuntimeError)
"""The errors of a rank because of another. (OSError, MemoryError and the like are its own.)"""
MOST_FURTHER = 4
"""Attempts beyond one for each rank that may die meanwhile."""

Made = tuple["Communicator", list[int], str]
"""A new group, its members' ranks in the one before, and how that one had failed."""


def shrink_group(comm: Communicator, leave_out: list[int], timeout_s: float) -> Communicator:
    """See Communicator.shrink."""
    on_this_machine = comm._parameters.threads or comm._parameters.bootstrap is ABSTRACT_SOCKET
    make = _made_here if on_this_machine else _made_over_hosts
    try:
        made, members, cause = make(comm, leave_out, timeout_s)
    except over_hosts.CutOff:
        raise
    except BaseException as error:
        comm._tell_cause(error)
        close_tree(comm)
        raise
    made.former_ranks, made.first_cause = tuple(members), cause
    made.set_timeout(comm.timeout_s)
    if absent := [rank for rank in range(comm.size) if rank not in members]:
        named = ", ".join(comm._parameters.names[rank] for rank in absent)
        comm._endpoint.poison(f"the group has gone on without rank{'s' * (len(absent) > 1)} {named}")
    close_tree(comm)
    return made


def _made_here(comm: Communicator, leave_out: list[int], timeout_s: float) -> Made:
    """The new group, once all of its members have it."""
    survivors = Survivors(comm, timeout_s, leave_out)
    why: Exception | None = None
    for _ in range(comm.size + MOST_FURTHER):
        members = survivors.members()

        def check_liveness(_: list[int], members: list[int] = members) -> None:
            if survivors.gave_up() or len(survivors.running(members)) < len(members):
                raise Abandoned("a survivor ended, or failed, while the survivors made their group")

        digest = sha256(f"{comm.key}/shrink{survivors.turn}".encode()).hexdigest()
        made: Communicator | None = None
        try:
            made = comm._of(_parameters(comm, members, f"shrunk-{digest[:32]}", timeout_s, check_liveness))
        except OF_OTHERS as error:
            why = error
        try:
            cause = _cause(comm)
            if survivors.made(made is not None) and made is not None:
                return made, members, cause
        except BaseException:
            if made is not None:
                made.close()
            raise
        if made is not None:
            made.close()
    raise _in_vain(comm, why)


def _made_over_hosts(comm: Communicator, leave_out: list[int], timeout_s: float) -> Made:
    """The same over hosts."""
    survivors = over_hosts.SurvivorsOverHosts(comm, timeout_s, leave_out)
    why: Exception | None = None
    try:
        for _ in range(comm.size + MOST_FURTHER):
            attempt = survivors.gather()
            way, made, ready = attempt.bootstrap, None, False
            try:
                key = f"{way.key}/shrunk"
                with way.setting_up(key, timeout_s) as check:
                    parameters = _parameters(comm, attempt.members, key, timeout_s, check)
                    made = comm._of(parameters._replace(bootstrap=way))
                ready = True
            except OF_OTHERS as error:
                why = error
            cause = _cause(comm)
            if survivors.settle(attempt, ready) and made is not None:
                way.leave_when_unused()
                return made, attempt.members, cause
            if made is not None:
                made.close()
            way.close()
        raise _in_vain(comm, why)
    except over_hosts.CutOff:
        survivors.wait()
        raise
    except BaseException:
        survivors.leave()
        raise
    finally:
        survivors.close()


def _cause(comm: Communicator) -> str:
    """The reason why the group has failed, also where nobody has waited for who died."""
    with suppress(*FAILURES):
        comm.check_liveness("shrink")
    return comm._endpoint.failure


def _in_vain(comm: Communicator, why: Exception | None) -> Poisoned:
    return Poisoned(f"rank {comm._parameters.names[comm.rank]} has no group with the other survivors: {why}")


def _parameters(
    comm: Communicator,
    members: Sequence[int],
    key: str,
    timeout_s: float,
    check_liveness: Callable[[list[int]], None],
) -> GroupParameters:
    """The parameters of the members' new group, a world of its own."""
    return comm._parameters._replace(
        key=key,
        rank=members.index(comm.rank),
        names=tuple(map(str, range(len(members)))),
        timeout_s=timeout_s,
        check_liveness=check_liveness,
        slots=0,
        inherited=None,
    )


def close_tree(comm: Communicator) -> None:
    """Closes a group, and all that were made from it."""
    for each in reversed((comm, *comm._made_from())):
        with suppress(*FAILURES):
            each.close()
