"""Rank 0's server, at which the ranks of several hosts exchange small values and hear of each other's failures.

It listens as long as rank 0 lives. A meeting of some ranks is complete when the last one has sent its value; its key is
a text that they derive alike. A setup is a stretch of meetings in which all ranks make a world: when one of them fails,
or its process ends, the server sends the reason to the others. Only ranks that have proved the secret can fail a setup.
"""

from __future__ import annotations

import contextlib
import hmac
import secrets
import selectors
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import ringtree
from ringtree.runtime.bootstrap.network.acceptor import STRANGERS, Acceptor
from ringtree.runtime.bootstrap.network.connection import (
    MOST_BYTES,
    PROTOCOL,
    Connection,
    closed_in_children,
    other_size,
    proof,
)
from ringtree.runtime.limits import start_thread

PROVE_S = 5.0
"""Seconds that a connection may take to prove that it knows the secret."""
CHECK_S = 0.1
GRACE_S = 1.0
"""Seconds that a server whose job has failed stays to give ranks that come later the reason."""
REMIND_S = 0.5
"""Seconds between two lists of the absent members."""
MOST_LISTED = 8
"""At most this many absent members are in such a list."""
ONE_INSTALLATION = "start every rank from the same installation of ringtree"
READY = "/ready"
"""The end of the key of a setup's last meeting."""


@dataclass(eq=False)
class _Meeting:
    """`waiting`: (rank, connection, when it gives up)."""

    names: list[str]
    subject: str
    generation: int
    values: dict[int, Any] = field(default_factory=dict)
    builds: dict[int, str] = field(default_factory=dict)
    waiting: list[tuple[int, Connection, float]] = field(default_factory=list)
    reminded_s: float = field(default_factory=time.monotonic)

    def absent(self) -> list[int]:
        """The members that have not come."""
        return [r for r in range(len(self.names)) if r not in self.values]


@dataclass(eq=False)
class _Setup:
    subject: str
    generation: int
    members: dict[int, Connection] = field(default_factory=dict)


@dataclass(frozen=True)
class _Failure:
    """A failed init: of all groups whose keys begin with `scope`, among processes of that generation."""

    generation: int
    scope: str
    message: dict[str, Any]

    def concerns(self, generation: int, key: str) -> bool:
        inside = not self.scope or key == self.scope or key.startswith(self.scope + "/")
        return generation == self.generation and inside


class RendezvousServer:
    """Collects the values of each meeting and sends them to its members. A thread of its own serves."""

    def __init__(self, listener: socket.socket, secret: bytes, size: int, names: Sequence[str] | None = None) -> None:
        """`names`: the ranks' names, in meetings and for users; their numbers are the default."""
        self.job, self._version = secrets.token_hex(8), ringtree.__version__
        self._listener, self._secret, self._size = listener, secret, size
        self._names = tuple(map(str, range(size))) if names is None else tuple(names)
        self._meetings: dict[str, _Meeting] = {}
        self._setups: dict[str, _Setup] = {}
        self._failures: list[_Failure] = []
        self._processes: dict[tuple[int, int], str] = {}  # generation and rank -> the process that claims them
        self._proved: set[Connection] = set()
        self._ended: set[tuple[int, int]] = set()
        self._complete: set[int] = set()  # generations that have made a world
        self._refused = ""  # the last connection that knew another secret
        self._selector = selectors.DefaultSelector()
        self._acceptor = Acceptor(listener, self._selector, size + STRANGERS, PROVE_S)
        closed_in_children(listener)
        closed_in_children(self._selector)
        self._stopping = self._retiring = False
        start_thread(self._serve, "rendezvous")

    def close(self) -> None:
        """Ends the service, and frees its address. Where the job failed, when all ranks have come, heard of it and
        left, or after GRACE_S."""
        until_s = time.monotonic() + GRACE_S
        while self._failures and time.monotonic() < until_s and (self._proved or len(self._processes) < self._size):
            time.sleep(CHECK_S / 10)
        self._stopping = True
        self._listener.close()

    def retire(self) -> None:
        """Ends the service when the ranks that are connected have left."""
        self._retiring = True

    def _serve(self) -> None:
        with self._selector:
            self._serve_all()

    def _serve_all(self) -> None:
        while not self._stopping:
            if self._retiring and not self._proved:
                return self._listener.close()
            for key, _ in self._selector.select(CHECK_S):
                if key.data is not None:
                    self._hear(key.data)
                    continue
                for connection in self._acceptor.accept():
                    self._drop(connection)
            for connection in self._acceptor.overdue():
                self._drop(connection)
            now = time.monotonic()
            for name in [name for name, m in self._meetings.items() if any(now > late for _, _, late in m.waiting)]:
                self._give_up(name)
            for meeting in self._meetings.values():
                self._remind(meeting, now)
        return None

    def _hear(self, connection: Connection) -> None:
        try:
            message = connection.receive()
            while message is not None:
                if not connection.proved:
                    self._admit(connection, message)
                elif "leave" in message:
                    return self._drop(connection)
                elif "begin" in message:
                    self._begin(connection, message)
                elif "fail" in message:
                    self._report(connection, message)
                else:
                    self._meet(connection, message)
                message = connection.next()
        except Exception:  # noqa: BLE001  # whatever a stranger sends, or a rank that ended: the others are served
            self._drop(connection)
            if connection.rank >= 0:
                self._end(connection)
        return None

    def _admit(self, connection: Connection, hello: dict[str, Any]) -> None:
        expected = proof(self._secret, "rank", connection.nonce, hello["nonce"])
        if not hmac.compare_digest(expected.hex(), hello["proof"]):
            self._refused = connection.peer()
            why = "the secret is another than rank 0's: set RINGTREE_SECRET alike for all ranks"
            connection.send({"refused": why, "kind": "secret"})
            raise ConnectionError("a wrong secret")
        generation, rank = int(hello.get("generation", 0)), int(hello.get("rank", -1))
        if why := self._contradiction(generation, rank, hello):
            complete = generation in self._complete
            over = (generation, rank) in self._processes and self._failure(generation, "") is not None
            kind = "complete" if complete else "over" if over else "contradiction"
            connection.send({"refused": why, "kind": kind})
            if not complete:
                self._fail(generation, "", {"failed": why, "rank": rank})
            raise ConnectionError(why)
        self._processes[generation, rank] = hello["process"]
        connection.rank, connection.generation = rank, generation
        connection.proved, connection.most_bytes = True, MOST_BYTES
        self._proved.add(connection)
        answer = proof(self._secret, "server", hello["nonce"], connection.nonce).hex()
        connection.send({"proof": answer, "job": self.job, "size": self._size})

    def _contradiction(self, generation: int, rank: int, hello: dict[str, Any]) -> str:
        """The contradiction between this job and a rank that knows the secret; "" without one."""
        if (theirs := hello.get("protocol", 0)) != PROTOCOL:
            return (
                f"rank {rank if rank >= 0 else 'unknown'} speaks version {theirs} of the rendezvous, rank 0 version "
                f"{PROTOCOL}: {ONE_INSTALLATION}"
            )
        name = self._names[rank] if 0 <= rank < self._size else str(rank)
        if (theirs := hello["version"]) != self._version:
            ours = f"rank {self._names[0]} has {self._version}"
            return f"rank {name} has ringtree {theirs}, {ours}: {ONE_INSTALLATION}"
        if hello["size"] != self._size:
            return other_size(name, hello["size"], self._names[0], self._size)
        if not 0 <= rank < self._size:
            return f"rank {rank} is none of this job's {self._size} ranks"
        if self._processes.get((generation, rank), hello["process"]) != hello["process"]:
            end = "; the first of them has ended" if (generation, rank) in self._ended else ""
            return f"two processes claim to be rank {rank}{end}: start each rank once, and end an earlier job first"
        return ""

    def _begin(self, connection: Connection, request: dict[str, Any]) -> None:
        key, generation = request["begin"], connection.generation
        setup = self._setups.setdefault(key, _Setup(request["subject"], generation))
        setup.members[connection.rank] = connection
        if failure := self._failure(generation, key):
            self._answer(connection, failure.message)
        elif gone := [r for g, r in sorted(self._ended) if g == generation]:
            self._fail(generation, key, self._ending(gone[0], setup.subject))

    def _report(self, connection: Connection, message: dict[str, Any]) -> None:
        """A rank's own failure in a setup: sent on to the others before it is acknowledged."""
        key, rank, generation = message["fail"], connection.rank, connection.generation
        subject = self._setups[key].subject if key in self._setups else "the job"
        name = self._names[rank]
        failed = f"rank {name} failed while {subject} was being set up: {message['why']}"
        scope = key if generation in self._complete else ""
        self._fail(generation, scope, {"failed": failed, "rank": int(name)}, reporter=connection)
        self._answer(connection, {"noted": True})

    def _end(self, connection: Connection) -> None:
        """The process of a rank has ended: whoever waits for it need not."""
        generation, rank = connection.generation, connection.rank
        self._ended.add((generation, rank))
        for key, setup in list(self._setups.items()):
            if setup.generation == generation:
                scope = key if generation in self._complete else ""
                self._fail(generation, scope, self._ending(rank, setup.subject))
        for key, meeting in list(self._meetings.items()):
            if meeting.generation == generation and self._names[rank] in meeting.names:
                self._end_meeting(key, self._ending(rank, meeting.subject))

    def _fail(self, generation: int, scope: str, message: dict[str, Any], reporter: Connection | None = None) -> None:
        """Sends everybody in the scope the failure; who comes later gets it then."""
        if self._failure(generation, scope):
            return
        failure = _Failure(generation, scope, message)
        self._failures.append(failure)
        concerned = [key for key, setup in self._setups.items() if failure.concerns(setup.generation, key)]
        sent: list[Connection] = []
        for key in concerned:
            sent += self._setups.pop(key).members.values()
        for connection in sent:
            if connection is not reporter:
                self._answer(connection, message)
        for key, meeting in list(self._meetings.items()):
            if failure.concerns(meeting.generation, key):
                self._end_meeting(key, message, sent)

    def _end_meeting(self, key: str, message: dict[str, Any], but: Sequence[Connection] = ()) -> None:
        meeting = self._meetings.pop(key)
        # The rank in whose process this is comes last: once it has its answer it may end, and the service with it.
        for _, connection, _ in sorted(meeting.waiting, key=lambda one: meeting.names[one[0]] == self._names[0]):
            if connection not in but:
                self._answer(connection, message)

    def _failure(self, generation: int, key: str) -> _Failure | None:
        return next((failure for failure in self._failures if failure.concerns(generation, key)), None)

    def _meet(self, connection: Connection, request: dict[str, Any]) -> None:
        key, rank, names, subject = request["key"], request["rank"], request["names"], request["subject"]
        if not 0 <= rank < len(names):
            raise ValueError(f"rank {rank} of {len(names)}")
        generation = connection.generation
        if failure := self._failure(generation, key):
            return self._answer(connection, failure.message)
        if gone := [r for g, r in sorted(self._ended) if g == generation and self._names[r] in names]:
            return self._answer(connection, self._ending(gone[0], subject))
        meeting = self._meetings.setdefault(key, _Meeting(names, subject, generation))
        if meeting.names != names or meeting.subject != subject:
            why = f"ranks disagree: rank {names[rank]} came for {subject}, others for {meeting.subject}"
            return self._answer(connection, {"refused": why})
        if rank in meeting.values:
            return self._answer(connection, {"refused": f"two processes are rank {names[rank]} of {subject}"})
        meeting.values[rank], meeting.builds[rank] = request["value"], request["build"]
        meeting.waiting.append((rank, connection, time.monotonic() + request["timeout_s"]))
        if len(set(meeting.builds.values())) > 1:
            first = {build: r for r, build in sorted(meeting.builds.items(), reverse=True)}
            named = sorted((r, build or "no name") for build, r in first.items())
            each = ", ".join(f"rank {names[r]} has {build}" for r, build in named)
            return self._end_meeting(key, {"refused": f"ranks run different builds of ringtree: {each}"})
        if len(meeting.values) == len(names):
            self._complete_meeting(key, meeting)
        return None

    def _complete_meeting(self, key: str, meeting: _Meeting) -> None:
        if key.endswith(READY) and key.removesuffix(READY) in self._setups:
            del self._setups[key.removesuffix(READY)]
            self._complete.add(meeting.generation)
        self._end_meeting(key, {"values": [meeting.values[r] for r in range(len(meeting.names))]})

    def _give_up(self, name: str) -> None:
        meeting = self._meetings[name]
        self._end_meeting(name, {"absent": meeting.absent(), "refused_from": self._refused})

    def _remind(self, meeting: _Meeting, now_s: float) -> None:
        """Lists the absent members to those who wait, now and then."""
        if now_s > meeting.reminded_s + REMIND_S:
            meeting.reminded_s = now_s
            for _, connection, _ in meeting.waiting:
                self._answer(connection, {"waits_for": meeting.absent()[:MOST_LISTED]})

    def _answer(self, connection: Connection, message: dict[str, Any]) -> None:
        try:
            connection.send(message)
        except OSError:  # also where it does not read, half-way: what came next would be taken for the rest
            with contextlib.suppress(OSError):
                connection.wire.shutdown(socket.SHUT_RDWR)

    def _drop(self, connection: Connection) -> None:
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(connection.wire)
        connection.wire.close()
        self._proved.discard(connection)
        for meeting in self._meetings.values():
            for rank in [r for r, other, _ in meeting.waiting if other is connection]:
                del meeting.values[rank], meeting.builds[rank]
            meeting.waiting = [entry for entry in meeting.waiting if entry[1] is not connection]

    def _ending(self, rank: int, subject: str) -> dict[str, Any]:
        name = self._names[rank]
        return {"failed": f"rank {name} ended while {subject} was being set up", "rank": int(name), "ended": True}
