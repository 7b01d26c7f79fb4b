"""A group takes processes in: a new one of the members and the newcomers takes its place."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NamedTuple

import numpy as np

from ringtree.errors import TimedOut
from ringtree.ir.digest import sha256
from ringtree.runtime.bootstrap.door import (
    LEADS_AT,
    Door,
    Knock,
    Newcomer,
    announced_door,
    announced_knock,
    local_door,
    local_knock,
)
from ringtree.runtime.bootstrap.environment import (
    FILE,
    SECRET,
    detect,
    patience,
    plain,
    rendezvous_address,
    secret_bytes,
)
from ringtree.runtime.bootstrap.local.abstract_socket import ABSTRACT_SOCKET
from ringtree.runtime.bootstrap.network.boards.file_board import FileBoard
from ringtree.runtime.bootstrap.network.boards.handed_on import HandedOn
from ringtree.runtime.bootstrap.network.contact import Contact
from ringtree.runtime.bootstrap.network.hosts import MultiHostBootstrap
from ringtree.runtime.communicator.arguments import described
from ringtree.runtime.communicator.communicator import Communicator
from ringtree.runtime.communicator.composite import CompositeCall
from ringtree.runtime.communicator.membership.shrinking import OF_OTHERS, close_tree
from ringtree.runtime.engines.engine import GroupParameters

JOB = "RINGTREE_JOB"
OPEN_S = 0.1
"""Seconds that the door is open for those who wait at it already."""
LOOK_S = 0.005
LONGEST_SLICE_S = 1.0
"""Seconds after which rank 0 tells the others that it still waits."""


class _Plan(NamedTuple):
    """The facts that members and newcomers know of the group that they make; they travel as a dict. `contact`: of the
    rendezvous, where they are on several hosts; `making_s` bounds the waits until they have it, `timeout_s` those
    after."""

    key: str
    size: int
    members: int
    making_s: float
    timeout_s: float
    engine: str
    check: bool
    reductions: Sequence[Any] | None
    contact: str

    @property
    def former_ranks(self) -> tuple[int, ...]:
        """As Communicator.former_ranks."""
        return (*range(self.members), *[-1] * (self.size - self.members))

    def parameters(self, rank: int) -> GroupParameters:
        """The parameters of a rank in the new group."""
        names = tuple(map(str, range(self.size)))
        agreed = GroupParameters(self.key, rank, names, self.making_s, check=self.check)
        if self.reductions is None:
            return agreed
        deterministic, accumulate = self.reductions
        return agreed._replace(reductions=(deterministic, accumulate))


def grow_group(comm: Communicator, count: int | None, at: str | None, timeout_s: float) -> Communicator:
    """See Communicator.grow."""
    where = _where(at)
    with CompositeCall(comm._fail, "grow") as call:
        comm._agreed(f"grow({count}, at={at!r})")
        comm._made += 1
        with _opened(comm, where, call) as door:
            came, newcomers = _came(comm, door, count, timeout_s, call)
            return _made(comm, where, newcomers, came, timeout_s, call) if came else comm


def join_group(at: str | None, timeout_s: float | None) -> Communicator:
    """See ringtree.join."""
    timeout_s, where = patience(timeout_s), _where(at)
    until_s = time.monotonic() + timeout_s
    while True:
        knock = (
            announced_knock(where, until_s) if isinstance(where, FileBoard) else local_knock(where, until_s, _named(at))
        )
        with knock as receive:
            try:
                message = _message(receive, until_s, "plan", at)
            except ConnectionError:  # the door was closed before this process was taken in
                continue
            return _joined(receive, message, at)


def _joined(receive: Knock, message: dict[str, Any], at: str | None) -> Communicator:
    plan = _Plan(**message["plan"])
    board = _handed(plan.contact, message.get(LEADS_AT))
    until_s = time.monotonic() + plan.making_s
    made = _group(plan, plan.parameters(message["rank"]), board)
    try:
        confirmed = _message(receive, until_s, "made", at)
        if not confirmed["made"]:
            raise RuntimeError("the group that this process was about to join was not made; join again")
    except BaseException as error:
        made.close()
        if isinstance(error, ConnectionError):
            raise RuntimeError("rank 0 of the group ended while this process joined it; join again") from None
        raise
    return made


def _message(receive: Knock, until_s: float, name: str, at: str | None) -> dict[str, Any]:
    """The next message with that entry."""
    while time.monotonic() < until_s:
        message = receive(max(min(until_s - time.monotonic(), LONGEST_SLICE_S), 0))
        if message is not None and name in message:
            return message
    raise TimeoutError(f"no group took this process in at {_named(at)}: have its ranks called grow() there?")


def _named(at: str | None) -> str:
    return "the place of its job" if at is None else repr(at)


def _where(at: str | None) -> str | FileBoard:
    """The door: a name on this machine, or the board that announces it."""
    secret = secret_bytes(os.environ.get(SECRET))
    if not isinstance(at, str | None):
        raise TypeError(f"at is {described(at)}; expected a name on this machine, or file:///path")
    if at is None:
        address, job = rendezvous_address(), plain(os.environ.get(JOB, ""))
        if isinstance(address, str):
            return FileBoard(address, f"{job or detect(meets=True).job_on_all_hosts}/join", secret)
        if address is None and not job:
            world = detect(meets=True)
            job = "" if world.launcher == "none" else world.job
        if address is not None or not job:
            raise ValueError(
                "there is no place to join at: give at=, a name on this machine or file:///path of a file that the "
                "hosts share, the same in grow() and ringtree.join()"
            )
        return job
    if at.startswith(FILE) and at.removeprefix(FILE).startswith("/"):
        return FileBoard(at.removeprefix(FILE), "", secret, "at")
    if not at or at.startswith("file:") or "://" in at:
        raise ValueError(f"at is {at!r}; expected a name on this machine, or file:///path of a file of all hosts")
    return at


@contextmanager
def _opened(comm: Communicator, where: str | FileBoard, call: CompositeCall) -> Iterator[Door | None]:
    """Rank 0's door, None on other ranks; RuntimeError on all where it cannot be opened."""
    door: AbstractContextManager[Door | None] = nullcontext()
    opened, why = None, ""
    if comm.rank == 0:
        door = announced_door(where) if isinstance(where, FileBoard) else local_door(where)
        try:
            opened = door.__enter__()
        except (OSError, RuntimeError, ValueError) as error:
            door, why = nullcontext(), str(error)
    try:
        if why := comm.broadcast_object(why):
            raise call.raised_by_all(RuntimeError(why))
        yield opened
    finally:
        door.__exit__(None, None, None)


def _came(
    comm: Communicator, door: Door | None, count: int | None, timeout_s: float, call: CompositeCall
) -> tuple[int, list[Newcomer]]:
    """The number of newcomers to take in, once there are `count`; without one, of those who wait now; and they, on
    rank 0. TimedOut, on all ranks: there are fewer."""
    until_s = time.monotonic() + (OPEN_S if count is None else timeout_s)
    slice_s = min(LONGEST_SLICE_S, comm.timeout_s / 4)
    status, newcomers = np.zeros(2, np.int64), list[Newcomer]()
    while True:
        if door is not None:
            newcomers, enough = _look(door, count, min(until_s, time.monotonic() + slice_s))
            status[:] = len(newcomers), enough or time.monotonic() >= until_s
        came, over = (int(number) for number in comm.broadcast(status))
        if over and (count is None or came == count):
            return came, newcomers
        if over:
            late = f"{came} of {count} processes came to join within {timeout_s:g} s; the group is as before"
            why = "have they called ringtree.join() with the same `at`?"
            if refused := comm.broadcast_object(door.refused_from() if door is not None else ""):
                why = f"a process on {refused} came with another secret: set RINGTREE_SECRET alike for all"
            raise call.raised_by_all(TimedOut(f"{late}: {why}"))


def _look(door: Door, count: int | None, until_s: float) -> tuple[list[Newcomer], bool]:
    """(those that wait at the door, whether these are enough) when there are enough, or time is up."""
    while True:
        came = door.newcomers()
        if count is not None and len(came) >= count:
            return came[:count], True
        if time.monotonic() >= until_s:
            return came, False
        time.sleep(LOOK_S)


def _made(
    comm: Communicator,
    where: str | FileBoard,
    newcomers: Sequence[Newcomer],
    came: int,
    timeout_s: float,
    call: CompositeCall,
) -> Communicator:
    """The new group, once members and newcomers have it. One that has ended since it was counted ends the attempt."""
    over_hosts = isinstance(where, FileBoard) or comm._parameters.bootstrap is not ABSTRACT_SOCKET
    board = HandedOn() if over_hosts else None
    way = _way(board, 0, comm.size + came, timeout_s) if board is not None and comm.rank == 0 else None
    plan = _plan(comm, came, timeout_s, board)
    for place, newcomer in enumerate(newcomers):
        newcomer.answer({"plan": plan._asdict(), "rank": comm.size + place})

    outcome = comm.beside("grow")
    leads, heard = np.ones(1, np.uint8), [outcome.irecv(np.empty(1, np.uint8), 0)] if comm.rank else []

    def check_liveness(_: list[int]) -> None:
        comm.check_liveness("grow")
        if any(message.done() and not message.result()[0] for message in heard):
            raise RuntimeError("rank 0 has given the new group up")  # maybe before this rank came to it
        if any(newcomer.ended for newcomer in newcomers):
            raise RuntimeError("a process that was about to join has ended")

    made, why = None, ""
    try:
        parameters = plan.parameters(comm.rank)._replace(
            check_liveness=check_liveness, cost=comm._parameters.cost, network=comm._parameters.network
        )
        made = _group(plan, parameters, _handed(plan.contact, None), way)
    except OF_OTHERS as error:
        why = str(error)
    try:
        if comm.rank == 0:
            leads[0] = made is not None
            for rank in range(1, comm.size):
                outcome.send(leads, rank)
        for message in heard:
            message.wait()
        all_have = bool(comm.all_reduce(np.array([made is not None]), "min")[0])
        for newcomer in newcomers:
            newcomer.answer({"made": all_have})
        if all_have and made is not None:
            close_tree(comm)
            return made
        none = f"no group of {plan.size} ranks was made: {why or 'another rank has none'}; the group is as before"
        raise call.raised_by_all(TimedOut(none))
    except BaseException:
        if made is not None:
            made.close()
        raise


def _plan(comm: Communicator, came: int, timeout_s: float, board: HandedOn | None) -> _Plan:
    """The same on all members."""
    contact = board.contact.text() if board is not None and board.contact is not None else ""
    digest = sha256(f"{comm.key}/grow{comm._made}".encode()).hexdigest()
    return _Plan(
        f"grown-{digest[:32]}",
        comm.size + came,
        comm.size,
        timeout_s,
        comm.timeout_s,
        comm._engine,
        comm._parameters.check,
        comm._parameters.reductions,
        comm.broadcast_object(contact),
    )


def _group(
    plan: _Plan, parameters: GroupParameters, board: HandedOn | None, way: MultiHostBootstrap | None = None
) -> Communicator:
    """This process's part in the new group. `way`: rank 0's, where it has made one."""
    if board is None:
        made = Communicator(plan.engine, parameters)
    else:
        way = way or _way(board, parameters.rank, plan.size, plan.making_s)
        own_check = parameters.check_liveness
        try:
            with way.setting_up(plan.key, plan.making_s, own_check) as check:

                def check_all(absent: list[int]) -> None:
                    check(absent)
                    if own_check is not None:
                        own_check(absent)

                made = Communicator(plan.engine, parameters._replace(bootstrap=way, check_liveness=check_all))
        except BaseException:
            way.close()
            raise
        way.leave_when_unused()
    made.former_ranks = plan.former_ranks
    made.set_timeout(plan.timeout_s)
    return made


def _way(board: HandedOn, rank: int, size: int, timeout_s: float) -> MultiHostBootstrap:
    return MultiHostBootstrap(board, rank, size, timeout_s)


def _handed(contact: str, leads_at: str | None) -> HandedOn | None:
    """The board of who was handed this contact, first with the address that answered."""
    if not contact:
        return None
    found = Contact.of(contact)
    addresses = dict.fromkeys(([leads_at] if leads_at else []) + [*found.addresses])
    return HandedOn(Contact(tuple(addresses), found.port, found.secret), leads_at or "")
