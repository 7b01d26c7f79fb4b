"""The post of a process: a socket at which survivors of a group reach each other once their rendezvous is gone.

A thread of the process answers at it, so whoever is refused there knows that the process has ended, and whoever hears
nothing that it, its host or the network stands still. It keeps those that come for a group whose survivors this process
is to lead, those that lead themselves and ask for it, and what has become of groups that it has left. Both ends prove
the job's secret first.
"""

from __future__ import annotations

import contextlib
import errno
import hmac
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple
from weakref import ref

from ringtree.runtime.bootstrap.network.acceptor import STRANGERS, Acceptor
from ringtree.runtime.bootstrap.network.addresses import listen_everywhere
from ringtree.runtime.bootstrap.network.connection import MOST_BYTES, Connection, closed_in_children
from ringtree.runtime.bootstrap.network.interfaces import chosen_interface
from ringtree.runtime.limits import start_thread
from ringtree.runtime.linux import after_fork_in_child

MOST_BROKEN = 3
"""Connections that a process may break off before it is taken to be none of the job's."""
PROVE_S = 2.0
"""Seconds that a process may take to prove that it knows the secret."""
SILENT_S = 3.0
"""Seconds after which a process that does not answer is taken to be out of reach."""
SHORT_HERE = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL}
"""Errors by which this process, and no other, is at fault: the next attempt may find what it needs."""
MOST_KEPT = 256
"""Groups that were left, and attempts, of which a process knows what has become; jobs that are over."""
LEADS_S = 1.0
"""Seconds for which a process that asked as a leader is taken to lead."""

AWAY, ATTENDS, LEADS, MAKES, GONE_ON, LEFT = "away", "attends", "leads", "makes", "gone on", "left"
"""The states of a process in a group: it does nothing; it wants to go on, and looks for or waits at who leads; it takes
others in; it makes the new group; it has that; it gave up its part."""
PENDING, MADE, GIVEN_UP = "pending", "made", "given up"
"""The outcomes of an attempt to make a group, as far as a member of it knows."""


class _Secret(NamedTuple):
    """A job's. A dead reference: the job is over."""

    proof_of: Callable[..., bytes]
    owner: ref[object]


class OtherSecret(ConnectionError):
    """The process that was dialled knows the job by another secret."""


class Come:
    """A survivor that has come to this process. `shunned`: those without whom it goes on."""

    def __init__(self, connection: Connection, rank: int, shunned: list[int]) -> None:
        self.connection, self.rank, self.shunned = connection, rank, shunned

    def answer(self, message: dict[str, Any]) -> None:
        """Sends what it waits for; it may have ended."""
        with contextlib.suppress(OSError):
            self.connection.send(message)


class Post:
    """This process's socket and its thread."""

    def __init__(self) -> None:
        chosen = chosen_interface()
        self.address = chosen[0].address if chosen else ""
        """The only address at which it listens; "": at all of the host."""
        self._listener = _listener(self.address)
        self.port: int = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._secrets: dict[str, _Secret] = {}
        self._refused: dict[str, str] = {}
        self._come: dict[str, dict[Connection, Come]] = {}
        self._states: dict[str, str] = {}
        self._leaders: dict[str, dict[Connection, tuple[int, float]]] = {}
        self._attempts: dict[str, str] = {}
        self._selector = selectors.DefaultSelector()
        self._acceptor = Acceptor(self._listener, self._selector, STRANGERS, PROVE_S)
        closed_in_children(self._listener)
        closed_in_children(self._selector)
        start_thread(self._serve, "rendezvous")

    def know(self, job: str, proof_of: Callable[..., bytes], owner: object) -> None:
        """Serves a job's processes, too, as long as `owner` exists, and then as those of one of the last jobs: some may
        come late. `proof_of`: makes 32 bytes that only they can make."""
        with self._lock:
            self._secrets.pop(job, None)
            self._secrets[job] = _Secret(proof_of, ref(owner))
            over = [job for job, secret in self._secrets.items() if secret.owner() is None]
            for job in over[: max(len(over) - MOST_KEPT, 0)]:
                del self._secrets[job]

    def forget(self, job: str) -> None:
        """Serves no more processes of that job."""
        with self._lock:
            self._secrets.pop(job, None)
            self._refused.pop(job, None)

    def refused_from(self, job: str) -> str:
        """The address of the last process that came to that job with another secret; "" where none did."""
        with self._lock:
            return self._refused.get(job, "")

    def does(self, key: str, state: str) -> None:
        """Sets the state of this process in the group of that key."""
        with self._lock:
            self._states.pop(key, None)
            self._states[key] = state
            _bound(self._states)

    def state(self, key: str) -> str:
        """The state of this process in the group of that key."""
        with self._lock:  # does() takes the old one out first
            return self._states.get(key, AWAY)

    def leaders(self, key: str) -> set[int]:
        """The ranks of that group that lead, of those that ask here what this process does."""
        since_s = time.monotonic() - LEADS_S
        with self._lock:
            return {rank for rank, asked_s in self._leaders.get(key, {}).values() if asked_s >= since_s}

    def come(self, key: str) -> list[Come]:
        """The survivors that wait here for the group of that key."""
        with self._lock:
            return list(self._come.get(key, {}).values())

    def dismiss(self, key: str, answered: Iterable[Come]) -> None:
        """Forgets those that have their answers."""
        with self._lock:
            for come in answered:
                self._come.get(key, {}).pop(come.connection, None)

    def attempt(self, name: str) -> None:
        """Begins an attempt, unless another member has given it up for this one already."""
        with self._lock:
            self._attempts.setdefault(name, PENDING)
            _bound(self._attempts)

    def settle(self, name: str, outcome: str) -> str:
        """Settles an attempt, where nothing has yet, and returns its outcome."""
        with self._lock:
            if self._attempts.get(name, PENDING) == PENDING:
                self._attempts[name] = outcome
            return self._attempts[name]

    def correct(self, name: str) -> None:
        """Another member has the group: so it is made, whatever this one has thought."""
        with self._lock:
            self._attempts[name] = MADE

    def _serve(self) -> None:
        while True:
            for key, _ in self._selector.select(self._acceptor.wait_s(1.0)):
                if key.data is not None:
                    self._hear(key.data)
                    continue
                for connection in self._acceptor.accept():
                    self._drop(connection)
            for connection in self._acceptor.overdue():
                self._drop(connection)

    def _hear(self, connection: Connection) -> None:
        try:
            message = connection.receive()
            while message is not None:
                if connection.proved:
                    self._answer(connection, message)
                else:
                    self._admit(connection, message)
                message = connection.next()
        except Exception:  # noqa: BLE001  # whatever a stranger sends, or a rank that ended: the others are served
            self._drop(connection)

    def _admit(self, connection: Connection, hello: dict[str, Any]) -> None:
        proof_of = self._secrets[hello["job"]].proof_of
        if not hmac.compare_digest(proof_of("come", connection.nonce, hello["nonce"]).hex(), hello["proof"]):
            with self._lock:
                self._refused[hello["job"]] = connection.peer()
                _bound(self._refused)
            connection.send({"refused": "secret"})
            raise ConnectionError("a wrong secret")
        connection.proved, connection.most_bytes = True, MOST_BYTES
        connection.send({"proof": proof_of("post", hello["nonce"], connection.nonce).hex()})

    def _answer(self, connection: Connection, message: dict[str, Any]) -> None:
        with self._lock:
            if "come" in message:
                come = Come(connection, int(message["rank"]), [int(rank) for rank in message["shunned"]])
                self._come.setdefault(message["come"], {})[connection] = come
                return
        if "attempt" in message:
            connection.send({"outcome": self.settle(message["attempt"], GIVEN_UP)})
        else:
            with self._lock:
                if message.get("leads"):
                    by = self._leaders.setdefault(message["key"], {})
                    by[connection] = (int(message["rank"]), time.monotonic())
                else:
                    _forget(self._leaders, message["key"], connection)
            connection.send({"state": self.state(message["key"])})

    def _drop(self, connection: Connection) -> None:
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(connection.wire)
        connection.wire.close()
        with self._lock:
            for by_key in (self._come, self._leaders):
                for key in list(by_key):
                    _forget(by_key, key, connection)


def _listener(address: str) -> socket.socket:
    if not address:
        return listen_everywhere()
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return socket.create_server((address, 0), family=family, backlog=1024)


def _forget(by_key: dict[str, Any], key: str, connection: Connection) -> None:
    by_key.get(key, {}).pop(connection, None)
    if not by_key.get(key, True):
        del by_key[key]


def _bound(table: dict[str, Any]) -> None:
    """Forgets the oldest of too many."""
    while len(table) > MOST_KEPT:
        del table[next(iter(table))]


class Addressee(NamedTuple):
    """The post of another process of a job. `proof_of` as in Post.know."""

    address: tuple[str, int]
    job: str
    proof_of: Callable[..., bytes]


def dial(to: Addressee) -> Connection:
    """A connection to the post of another process. ConnectionError: the process has ended, OtherSecret among them where
    it has not; another OSError: it is out of reach."""
    wire = socket.create_connection(to.address, SILENT_S)
    connection = Connection(wire)
    try:
        wire.settimeout(SILENT_S)
        theirs = connection.whole(SILENT_S)["nonce"]
        mine = to.proof_of("come", theirs, connection.nonce).hex()
        answer = connection.answer({"job": to.job, "nonce": connection.nonce, "proof": mine}, SILENT_S)
        if answer.get("refused") == "secret":
            raise OtherSecret("the secret is another there")
        if not hmac.compare_digest(to.proof_of("post", connection.nonce, theirs).hex(), answer.get("proof", "")):
            raise ConnectionError("who listens there is none of the job's")
        connection.most_bytes = MOST_BYTES
    except (KeyError, TypeError, ValueError):
        wire.close()
        raise ConnectionError("who listens there is none of the job's") from None
    except BaseException:
        wire.close()
        raise
    return connection


class Answer(NamedTuple):
    """The answer of a process's post, or how it ended. `asked_s`: when it was asked, by time.monotonic()."""

    state: str
    asked_s: float


class Correspondent:
    """Another process's post, asked now and then by a thread: `answer` is the last.

    `key`, `rank`: of the group and of this process in it. Who is asked by a process that leads knows that it does.
    """

    ENDED, SILENT, UNKNOWN = "ended", "silent", "unknown"
    ASK_S = 0.1

    def __init__(self, to: Addressee, key: str, rank: int) -> None:
        self._to, self._key, self._rank = to, key, rank
        self.answer, self._stopping = Answer(self.UNKNOWN, 0.0), False
        start_thread(self._ask, "rendezvous")

    def stop(self) -> None:
        """Asks no more."""
        self._stopping = True

    def _ask(self) -> None:
        broken = 0
        while not self._stopping:
            asked_s = time.monotonic()
            try:
                with contextlib.closing((connection := dial(self._to)).wire):
                    while not self._stopping:
                        asked_s = time.monotonic()
                        leads = post().state(self._key) == LEADS
                        connection.send({"key": self._key, "rank": self._rank, "leads": leads})
                        self.answer = Answer(str(connection.whole(SILENT_S)["state"]), asked_s)
                        broken = 0
                        time.sleep(self.ASK_S)
            except ConnectionRefusedError:
                self.answer = Answer(self.ENDED, asked_s)
            except ConnectionError:  # it ends, or another process has its port by now
                broken += 1
                if broken >= MOST_BROKEN:
                    self.answer = Answer(self.ENDED, asked_s)
            except OSError as error:
                if error.errno not in SHORT_HERE:
                    self.answer = Answer(self.SILENT, asked_s)
            time.sleep(self.ASK_S / 10)


_mine: deque[Post] = deque()
_making = threading.Lock()


def post() -> Post:
    """This process's."""
    with _making:
        if not _mine:
            _mine.append(Post())
        return _mine[0]


def _after_fork_in_child() -> None:
    global _making
    _mine.clear()
    _making = threading.Lock()


after_fork_in_child(_after_fork_in_child)
