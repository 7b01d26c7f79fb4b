"""A rank's way to rank 0's server (`server`): it finds it, proves the job's secret, and exchanges small values."""

from __future__ import annotations

import contextlib
import hmac
import secrets
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import ringtree
from ringtree.errors import PeerDied
from ringtree.runtime.bootstrap.bootstrap import BootstrapGroup
from ringtree.runtime.bootstrap.network.addresses import is_elsewhere, is_loopback
from ringtree.runtime.bootstrap.network.boards.handed_on import HandedOn
from ringtree.runtime.bootstrap.network.connection import (
    MOST_BYTES,
    PROTOCOL,
    Broken,
    Busy,
    Connection,
    of_wire,
    other_size,
    proof,
)
from ringtree.runtime.bootstrap.network.contact import Board, Contact, Known, shown
from ringtree.runtime.bootstrap.network.dialling import dialled
from ringtree.runtime.bootstrap.network.server import PROVE_S
from ringtree.runtime.bootstrap.network.setup import CHECK_S, Setup, raise_failure

MIN_RTT_AT = 148
"""The offset of tcpi_min_rtt, in microseconds, in Linux's struct tcp_info."""
RETRY_S = 0.05
UNDER_WAY_S = 0.5
"""Seconds that an answer may take to come, after another rank has had its own."""
ONE_OF_SEVERAL_S = 2.0
"""Seconds that one of several addresses may take to answer."""


class _NotRank0(Exception):
    """Whoever answered is not this job's rank 0, but its rank 0 may answer later, or elsewhere."""


class Rendezvous:
    """A rank's way to the server. Several threads may meet at once: each has a connection of its own meanwhile.

    `generation`: 0; in a forked child of a process that had met, one more than its parent's. `job`: the parent's then.
    `names`: the ranks' names for users; their numbers are the default.
    """

    def __init__(
        self,
        board: Board,
        rank: int,
        size: int,
        timeout_s: float,
        check_liveness: Callable[[list[int]], None] | None = None,
        *,
        generation: int = 0,
        job: str = "",
        names: Sequence[str] | None = None,
    ) -> None:
        self._board, self._rank, self._size, self._generation = board, rank, size, generation
        self._name, self._first = (names[rank], names[0]) if names else (str(rank), "0")
        self._process = secrets.token_hex(8)
        self._idle: list[Connection] = []
        self._lock = threading.Lock()
        self.setups: list[Setup] = []
        """Under way, each in a thread of its own."""
        self.job = job
        self.reached: tuple[str, int] | None = None
        """The address of rank 0's that answered, and its port."""
        self._secret = b""
        first = self._find(timeout_s, check_liveness or (lambda absent: None))
        self.here: str = first.wire.getsockname()[0]
        """This host's address on the way to rank 0."""
        self._idle.append(first)

    def round_trip_s(self) -> float:
        """The least time that the kernel has seen a message of this rank's take to rank 0's host and back; 0 where it
        does not know."""
        wire = (self.setups[0].connection if self.setups else self._idle[0]).wire
        info = wire.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, MIN_RTT_AT + 4)
        return struct.unpack_from("<I", info, MIN_RTT_AT)[0] / 1e6 if len(info) == MIN_RTT_AT + 4 else 0.0

    def proof(self, *parts: str) -> bytes:
        """32 bytes that only a rank of the job can make of these parts."""
        return proof(self._secret, *parts)

    def prover(self) -> Callable[..., bytes]:
        """`proof`, without this way."""
        return partial(proof, self._secret)

    def known(self) -> Board:
        """A board that announces the rank 0 that this rank has met."""
        assert self.reached is not None
        address, port = self.reached
        if self._board.several:
            return Known(Contact((address,), port, b""), self._board.where, self._secret)
        return self._board

    def setting_up(self, world: BootstrapGroup) -> Setup:
        """A stretch of meetings of all ranks, whose keys begin with the world's: see Setup."""
        return Setup(self, world)

    def exchange(self, group: BootstrapGroup, value: Any = None) -> list[Any]:
        """Each member's value, as Bootstrap.exchange."""
        request = {
            "key": group.key,
            "rank": group.rank,
            "names": list(group.names),
            "subject": group.subject,
            "value": value,
            "build": group.build,
            "timeout_s": group.timeout_s,
        }
        setup = next((setup for setup in self.setups if setup.concerns(group.key)), None)
        if setup is not None:
            answer = self._ask(setup.connection, group, request)
            setup.failed = setup.failed or "failed" in answer
        else:
            with self._connection(group) as connection:
                answer = self._ask(connection, group, request)
        if "absent" in answer:
            raise self._missing(group, answer)
        raise_failure(answer)
        if "refused" in answer:
            raise RuntimeError(answer["refused"])
        values: list[Any] = answer["values"]
        group.complete()
        return values

    def _missing(self, group: BootstrapGroup, answer: dict[str, Any]) -> TimeoutError:
        hint = ""
        if address := answer.get("refused_from"):
            hint = f"; a process on {address} came with another secret: set RINGTREE_SECRET alike for all ranks"
        elif self.reached and is_loopback(self.reached[0]):
            hint = f"; ranks on other hosts do not reach {self._board.where}, an address of the loopback interface"
        return TimeoutError(f"{group.missing(answer['absent'])}{hint}")

    def _ask(self, connection: Connection, group: BootstrapGroup, request: dict[str, Any]) -> dict[str, Any]:
        late_s = time.monotonic() + group.timeout_s + 1.0  # the server gives up first, and names who is missing
        connection.wire.settimeout(CHECK_S)
        try:
            connection.send(request)
            answer = connection.next()
            while answer is None or "waits_for" in answer:
                if answered := self._checked(connection, group, [] if answer is None else answer["waits_for"]):
                    return answered
                if answer is None and time.monotonic() > late_s:
                    break
                answer = connection.within(CHECK_S)
        except OSError as error:
            if not of_wire(error):
                raise
            group.check([])
            raise self.ended(group.subject) from None
        if answer is None:
            raise TimeoutError(f"rank {self._first} did not answer for {group.subject}")
        return answer

    def _checked(self, connection: Connection, group: BootstrapGroup, absent: list[int]) -> dict[str, Any] | None:
        """None where all members live. Where one has ended: the answer, if all had met before that end, and else the
        check's error."""
        try:
            group.check(absent)
        except Exception:
            until_s, answer = time.monotonic() + UNDER_WAY_S, None
            while (answer is None or "waits_for" in answer) and (left_s := until_s - time.monotonic()) > 0:
                answer = connection.within(left_s)
            if answer is None or "values" not in answer:
                raise
            return answer
        return None

    @contextlib.contextmanager
    def _connection(self, group: BootstrapGroup) -> Iterator[Connection]:
        connection = self.take(group.subject, group.timeout_s)
        try:
            yield connection
        except BaseException:
            connection.leave()
            raise
        self.put(connection)

    def take(self, subject: str, timeout_s: float) -> Connection:
        """A connection for the caller alone, until it is put back."""
        with self._lock:
            if self._idle:
                return self._idle.pop()
        try:
            return self._connect(timeout_s)
        except (OSError, _NotRank0) as error:
            if not (of_wire(error) or isinstance(error, _NotRank0)):
                raise
            raise self.ended(subject) from None

    def put(self, connection: Connection) -> None:
        """Keeps a connection for the next who takes one."""
        with self._lock:
            self._idle.append(connection)

    def ended(self, subject: str) -> PeerDied:
        """The error where rank 0 no longer serves."""
        first = f"rank {self._first}"
        return PeerDied(
            f"{first} ended while {subject} was being set up: over several hosts ranks meet at {first}, so its process "
            "must live as long as groups are made",
            int(self._first),
        )

    def leave(self) -> None:
        """Closes the connections that are not in use."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.leave()

    def _connect(self, timeout_s: float) -> Connection:
        """One more connection to the rank 0 that this rank has met."""
        assert self.reached is not None
        late_s = time.monotonic() + timeout_s
        while True:
            try:
                return self._prove(dialled(self.reached, timeout_s), self._secret, timeout_s)
            except Busy:
                if time.monotonic() > late_s:
                    raise
                time.sleep(RETRY_S)

    def _find(self, timeout_s: float, check_liveness: Callable[[list[int]], None]) -> Connection:
        late_s = time.monotonic() + timeout_s
        tried: dict[str, str] = {}
        busy = False
        while True:
            refused = set[str]()
            contact = self._board.read(max(late_s - time.monotonic(), RETRY_S))
            for address in contact.addresses if contact else ():
                assert contact is not None
                most_s = max(late_s - time.monotonic(), 0.1)
                try:
                    connection = self._try(contact, address, most_s)
                except socket.gaierror as error:
                    raise RuntimeError(
                        f"rank {self._name} cannot look up the host of rank {self._first}, {address}, at "
                        f"{self._board.where} ({error.strerror}); expected a name that is known here, or an address"
                    ) from None
                except (OSError, _NotRank0) as error:
                    if not (of_wire(error) or isinstance(error, _NotRank0)):
                        raise
                    if self.job and isinstance(error, _NotRank0):
                        raise RuntimeError(f"in a forked child: {error}") from None
                    if isinstance(error, ConnectionRefusedError):
                        refused.add(address)
                    tried[shown(address, contact.port)] = str(error)
                    busy = isinstance(error, Busy)
                    continue
                self.reached, self._secret = (address, contact.port), contact.secret + self._board.secret
                return connection
            over = isinstance(self._board, HandedOn) and self._board.has_ended(refused)
            # so it is with a parent's job: its rank 0 was there, and does not come again
            if over or (self.job and tried and not busy):
                raise self.ended("the job")
            check_liveness([0])
            if time.monotonic() > late_s:
                raise TimeoutError(self._unreached(timeout_s, tried))
            time.sleep(RETRY_S)

    def _try(self, contact: Contact, address: str, most_s: float) -> Connection:
        if len(contact.addresses) > 1:
            most_s = min(most_s, ONE_OF_SEVERAL_S)
        wire = dialled((address, contact.port), most_s)
        try:
            return self._prove(wire, contact.secret + self._board.secret, most_s)
        except Busy:
            raise
        except OSError as error:
            if not of_wire(error):
                raise
            if self._board.given is None:
                raise _NotRank0(f"no rank 0 of ringtree: {error}") from None
            raise RuntimeError(
                f"rank {self._name}: who listens at {self._board.where} is no rank 0 of ringtree ({error}); if another "
                "program has that port, choose a free one of rank 0's host"
            ) from None

    def _unreached(self, timeout_s: float, tried: dict[str, str]) -> str:
        began = f"rank {self._name} did not reach rank {self._first} at {self._board.where} within {timeout_s:g} s"
        if not tried:
            return (
                f"{began} (nothing was announced there): is rank {self._first} running, and does it see the same place?"
            )
        each = tried.values() if self._board.given else (f"{address}: {why}" for address, why in tried.items())
        hint = f"is rank {self._first} running, and is that its address on this network?"
        if self._rank == 0 and self._board.given and is_elsewhere(self._board.given.addresses[0]):
            hint = (
                f"{self._board.given.addresses[0]} is no address of this host, where rank {self._first} runs; set "
                "RINGTREE_ADDRESS to one that is, alike for all ranks"
            )
        elif self._board.given and is_loopback(self._board.given.addresses[0]):
            hint = (
                "is rank 0 running? An address of the loopback interface reaches this host only: where rank 0 is on "
                "another, set RINGTREE_ADDRESS to an address of its network"
            )
        elif not self._board.given:
            hint = (
                f"is rank {self._first} running? RINGTREE_INTERFACE on its host chooses the interface to be reached by"
            )
        return f"{began} ({'; '.join(each)}): {hint}"

    def _prove(self, wire: socket.socket, secret: bytes, most_s: float) -> Connection:
        connection = Connection(wire)
        try:
            self._prove_at(connection, secret, min(PROVE_S, most_s))
        except BaseException as error:
            if of_wire(error):
                wire.close()
            else:  # this process lives on
                connection.leave()
            raise
        return connection

    def _prove_at(self, connection: Connection, secret: bytes, most_s: float) -> None:
        connection.wire.settimeout(most_s)
        theirs = _text(connection.whole(most_s), "nonce")
        answer = connection.answer(
            {
                "nonce": connection.nonce,
                "proof": proof(secret, "rank", theirs, connection.nonce).hex(),
                "protocol": PROTOCOL,
                "version": ringtree.__version__,
                "rank": self._rank,
                "size": self._size,
                "process": self._process,
                "generation": self._generation,
            },
            most_s,
        )
        if "refused" in answer:
            why = _text(answer, "refused")
            if answer.get("kind") == "secret":
                why = f"rank {self._name}: {why}"
            # a job that is over: this rank was in it, and may be early at the next
            if answer.get("kind") in ("complete", "over") or (
                answer.get("kind") == "secret" and self._board.given is None
            ):
                raise _NotRank0(why)
            raise RuntimeError(why)
        mine = proof(secret, "server", connection.nonce, theirs).hex()
        if not hmac.compare_digest(mine.encode(), _text(answer, "proof").encode()):
            raise RuntimeError(
                f"rank {self._name}: rank {self._first}'s secret is another: set RINGTREE_SECRET alike for all ranks"
            )
        if answer.get("size") != self._size:
            raise RuntimeError(other_size(self._name, self._size, self._first, answer.get("size")))
        if self.job and answer.get("job") != self.job:
            raise _NotRank0("another job's rank 0")
        self.job, connection.most_bytes = _text(answer, "job"), MOST_BYTES


def _text(message: dict[str, Any], name: str) -> str:
    """A text of a message that whoever answered has sent. Broken: it has none of that name."""
    if not isinstance(found := message.get(name), str):
        raise Broken(f"a message without {name}")
    return found
