"""The door to which processes come that want to join a group: its rank 0 opens the door for a while, and they knock.

On one machine the door is an abstract socket, whose other end the kernel names; over hosts it is rank 0's post, which a
board announces.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Protocol, TypeVar

from ringtree.runtime.bootstrap.local.socket_messages import MESSAGE_BYTES, read, written
from ringtree.runtime.bootstrap.local.socket_names import NAMES, address, listener, reach
from ringtree.runtime.bootstrap.local.unix_socket import UnixSocket, connection
from ringtree.runtime.bootstrap.network.boards.file_board import FileBoard
from ringtree.runtime.bootstrap.network.connection import Connection, proof
from ringtree.runtime.bootstrap.network.contact import Contact
from ringtree.runtime.bootstrap.network.interfaces import candidates
from ringtree.runtime.bootstrap.network.post import Addressee, Come, OtherSecret, dial, post

RETRY_S = 0.02
BACKLOG = 256
LEADS_AT = "leads at"
"""The entry, in a message to a newcomer over hosts, with the address at which it has reached rank 0."""

Message = dict[str, Any]
Found = TypeVar("Found")


class Newcomer(Protocol):
    """A process at the door, as rank 0 sees it."""

    def answer(self, message: Message) -> None:
        """Sends it what it waits for; it may have ended."""
        ...

    @property
    def ended(self) -> bool:
        """Whether it does not wait any more."""
        ...


class Door(Protocol):
    """An open door."""

    def newcomers(self) -> list[Newcomer]:
        """The processes that wait, in the order in which they came."""
        ...

    def refused_from(self) -> str:
        """The address of the last process that came with another secret; "" where none did."""
        ...


Knock = Callable[[float], Message | None]
"""A newcomer's wait for the next message, for that many seconds; None where there was none. ConnectionError at the
end."""


class _Local:
    """A newcomer on this machine."""

    def __init__(self, socket: UnixSocket) -> None:
        self._socket = socket

    def answer(self, message: Message) -> None:
        with suppress(OSError):
            self._socket.send(written(message))

    @property
    def ended(self) -> bool:
        return self._socket.is_readable(0)  # a newcomer says nothing

    def close(self) -> None:
        self._socket.close()


class _LocalDoor:
    def __init__(self, made: UnixSocket) -> None:
        self._listener, self.all = made, list[_Local]()

    def newcomers(self) -> list[Newcomer]:
        while self._listener.is_readable(0):
            came = self._listener.accept()
            if came.peer()[0] == os.getuid():
                self.all.append(_Local(came))
            else:
                came.close()
        for one in [one for one in self.all if one.ended]:
            self.all.remove(one)
            one.close()
        return list(self.all)

    def refused_from(self) -> str:
        return ""


@contextmanager
def local_door(name: str) -> Iterator[Door]:
    """The door of that name on this machine. RuntimeError: another group's is open."""
    made = listener(_key(name), time.monotonic(), BACKLOG)
    if not isinstance(made, UnixSocket):
        raise RuntimeError(f"another group takes processes in at {name!r}, of {made[-1]}; expected a name of its own")
    with made:
        door = _LocalDoor(made)
        try:
            yield door
        finally:
            for newcomer in door.all:
                newcomer.close()


def _awaited(look: Callable[[], Found | None], until_s: float, where: str) -> Found:
    while True:
        why = "have its ranks called grow() there?"
        try:
            if (found := look()) is not None:
                return found
        except OtherSecret:
            why = "the group there has another secret: set RINGTREE_SECRET alike for its ranks and this process"
        if time.monotonic() > until_s:
            raise TimeoutError(f"no group took this process in at {where}: {why}")
        time.sleep(RETRY_S)


@contextmanager
def local_knock(name: str, until_s: float, where: str) -> Iterator[Knock]:
    """Comes to the door of that name, and waits for it to open. `where`: the name in words. TimeoutError: it does not
    open in time."""
    reached = _awaited(partial(_reached, name), until_s, where)

    def receive(timeout_s: float) -> Message | None:
        if not reached.is_readable(timeout_s):
            return None
        if not (message := reached.recv(MESSAGE_BYTES)):
            raise ConnectionError("the door was closed")
        return read(message)

    with reached:
        yield receive


def _reached(name: str) -> UnixSocket | None:
    for number in range(NAMES):
        made = connection()
        made.setblocking(False)
        holder = reach(made, address(_key(name), number))
        if holder is not None and holder.user == os.getuid():
            made.setblocking(True)
            return made
        made.close()
    return None


def _key(name: str) -> str:
    return f"{name}, those who join"


class _Remote:
    """A newcomer at the post."""

    def __init__(self, come: Come) -> None:
        self.come = come

    def answer(self, message: Message) -> None:
        self.come.answer(message)

    @property
    def ended(self) -> bool:
        return self.come.connection.wire.fileno() < 0


class _PostDoor:
    def __init__(self, key: str) -> None:
        self._key = key

    def newcomers(self) -> list[Newcomer]:
        return [_Remote(come) for come in post().come(self._key)]

    def refused_from(self) -> str:
        return post().refused_from(self._key)


@contextmanager
def announced_door(board: FileBoard) -> Iterator[Door]:
    """The door that a file announces to the hosts that share it. RuntimeError: another group's is open there."""
    if _is_open(board):
        raise RuntimeError(f"another group takes processes in at {_place(board)}; expected a file of its own")
    contact = Contact(tuple(candidates()), post().port, secrets.token_bytes(32))
    job = _job(contact)
    door = _PostDoor(job)
    post().know(job, partial(proof, contact.secret + board.secret), door)
    try:
        board.announce(contact)
        yield door
    finally:
        board.withdraw()
        post().forget(job)
        for come in post().come(job):
            come.answer({"again": True})
        post().dismiss(job, post().come(job))


def _is_open(board: FileBoard) -> bool:
    theirs = None
    with suppress(RuntimeError):  # what is there is no announcement: announce() says so
        try:
            theirs = _dialled(board)
        except OtherSecret:
            return True
    if theirs:
        theirs[0].wire.close()
    return theirs is not None


def _place(board: FileBoard) -> str:
    return board.where.removeprefix("at=")


@contextmanager
def announced_knock(board: FileBoard, until_s: float) -> Iterator[Knock]:
    """Comes to the door that a file announces. TimeoutError: none does in time."""
    reached, at = _awaited(partial(_announced, board), until_s, _place(board))

    def receive(timeout_s: float) -> Message | None:
        reached.wire.settimeout(max(timeout_s, 1e-3))
        try:
            message = reached.next() or reached.receive()
        except TimeoutError:
            return None
        if message and "again" in message:
            raise ConnectionError("the door was closed")
        return message and {LEADS_AT: at, **message}

    try:
        yield receive
    finally:
        reached.wire.close()


def _announced(board: FileBoard) -> tuple[Connection, str] | None:
    reached = _dialled(board)
    if reached is None:
        return None
    connection, at, job = reached
    try:
        connection.send({"come": job, "rank": -1, "shunned": []})
    except OSError:  # it has just ended
        connection.wire.close()
        return None
    return connection, at


def _dialled(board: FileBoard) -> tuple[Connection, str, str] | None:
    """A connection to the post that a file announces, the address that reached it, and the door's job there; None where
    there is none, or who is there has ended. OtherSecret: its secret is none of this process's."""
    contact, refusal = board.read(RETRY_S), None
    for at in contact.addresses if contact else ():
        assert contact is not None
        job = _job(contact)
        try:
            return dial(Addressee((at, contact.port), job, partial(proof, contact.secret + board.secret))), at, job
        except OtherSecret as error:
            refusal = error
        except OSError:
            continue
    if refusal is not None:
        raise refusal
    return None


def _job(contact: Contact) -> str:
    return f"door {proof(contact.secret, 'door').hex()[:16]}"
