"""The reference engine's messages: MPI's matching, written out. Sends are done at once, for the payload is copied."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from ctypes import memmove, string_at
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any

from ringtree.errors import Mismatch, PeerDied, TimedOut
from ringtree.ir.trace import Event
from ringtree.runtime.engines.protocols import MessageOperation
from ringtree.runtime.engines.tags import ACKNOWLEDGEMENT, ANY, CLOCKS, COPY, PARTS
from ringtree.runtime.types import Dtype

if TYPE_CHECKING:
    from ringtree.runtime.engines.reference.group import ReferenceGroup

Status = tuple[int, int, int]
"""Source, tag, bytes."""
_CODES = frozenset(map(int, Dtype))
"""Other numbers are those of types that are only moved."""


@dataclass(frozen=True, slots=True, eq=False)
class MessageInFlight:
    """A message on its way, with its contents."""

    source: int
    tag: int
    dtype: int
    payload: bytes
    number: int
    """Among those from there to here."""
    synchronous: bool = False

    @property
    def status(self) -> Status:
        return self.source, self.tag, len(self.payload)


@dataclass(slots=True, eq=False)
class PostedOperation:
    """A send or a receive, and its message once there is one. `address` 0 with `at_most` takes any size; of a send,
    `at_most` means synchronous."""

    is_send: bool
    peer: int
    tag: int
    address: int
    nbytes: int
    dtype: int
    at_most: bool
    message: MessageInFlight | None = None

    def wants(self, message: MessageInFlight) -> bool:
        return self.peer in (ANY, message.source) and (
            self.tag == message.tag or (self.tag == ANY and message.tag >= 0)
        )

    def __str__(self) -> str:
        expected = "anything" if self.nbytes < 0 else f"{'at most ' * self.at_most}{self.nbytes} bytes"
        return f"{expected} of {_label(self.dtype)}"


@dataclass(slots=True, eq=False)
class MatchingTable:
    """One rank's receives in the order they were posted, and unexpected messages in the order they came."""

    posted: list[PostedOperation] = field(default_factory=list)
    unexpected: list[MessageInFlight] = field(default_factory=list)


class ReferenceMessages:
    """The part of an endpoint that is about messages; see ringtree._native.Group for the contract."""

    def __init__(self, group: ReferenceGroup, rank: int, timeout_s: float) -> None:
        self.group, self.rank, self.timeout_s = group, rank, timeout_s
        self.transfers: dict[int, PostedOperation] = {}
        self.numbers = count(1)

    def exchange(self, operations: list[MessageOperation], timeout_s: float) -> list[Status]:
        transfers = [PostedOperation(*operation) for operation in operations]
        self._exchange(transfers, timeout_s)
        return [t.message.status for t in transfers if t.message is not None]

    def receive(self, peer: int, tag: int, dtype: int, timeout_s: float) -> tuple[bytes, int, int]:
        transfer = PostedOperation(False, peer, tag, 0, -1, dtype, True)
        self._exchange([transfer], timeout_s)
        assert transfer.message is not None
        return transfer.message.payload, transfer.message.source, transfer.message.tag

    def send(self, x: Any, peer: int, tag: int) -> bool:
        return False  # there is no fast path

    def recv(self, x: Any, peer: int, tag: int) -> bool:
        return False

    def recv_at_most(self, x: Any, peer: int, tag: int) -> int:
        return -1

    def post(self, operation: MessageOperation) -> int:
        with self.group.changed:
            self.group.raise_failure(self.rank)
            number = next(self.numbers)
            self.transfers[number] = PostedOperation(*operation)
            self._begin(self.transfers[number])
            return number

    def test(self, number: int) -> bool:
        with self.group.changed:
            transfer = self._numbered(number)
            for peer in self._gone([transfer]):
                names, what = self.group.names, self._where(transfer)
                why = f"rank {names[peer]} left while rank {names[self.rank]} waited for {what}"
                self.group.poison(PeerDied, why, peer)
            return transfer.message is not None or self.group.failure is not None

    def complete(self, numbers: Sequence[int], first: bool, timeout_s: float) -> int:
        with self.group.changed:
            transfers = [self._numbered(number) for number in numbers]

            def found() -> int:
                done = [t.message is not None for t in transfers]
                return (done.index(True) if True in done else -1) if first else (0 if all(done) else -1)

            with self._waiting(transfers):
                return self._wait(found, transfers, timeout_s)

    def status(self, number: int) -> Status:
        with self.group.changed:
            message = self._numbered(number).message
        if message is None:
            raise ValueError(f"message {number} is still under way")
        return message.status

    def drop(self, number: int) -> bool:
        with self.group.changed:
            transfer = self.transfers.get(number)
            if transfer is not None and transfer.message is None:
                return False
            self.transfers.pop(number, None)
            return True

    def probe(self, peer: int, tag: int, timeout_s: float, may_have_left: bool = False) -> Status | None:
        probe = PostedOperation(False, peer, tag, 0, 0, 0, True)
        unexpected = self.box(self.rank).unexpected
        with self.group.changed:

            def found() -> int:
                return next((i for i, message in enumerate(unexpected) if probe.wants(message)), -1)

            position = self._wait(found, [] if may_have_left else [probe], timeout_s)
            return None if position < 0 else unexpected[position].status

    def box(self, rank: int) -> MatchingTable:
        return self.group.mail.setdefault(rank, MatchingTable())

    # -- all of what follows with `changed` held

    def _exchange(self, transfers: list[PostedOperation], timeout_s: float) -> None:
        with self.group.changed:
            self.group.raise_failure(self.rank)
            with self._waiting(transfers):
                for transfer in transfers:
                    self._begin(transfer)
                try:
                    self._wait(lambda: -1 if any(t.message is None for t in transfers) else 0, transfers, -1, timeout_s)
                except BaseException:  # arrays that are given back must not be written to
                    box = self.box(self.rank)
                    box.posted = [t for t in box.posted if t not in transfers]
                    raise

    def _waiting(self, transfers: list[PostedOperation]) -> AbstractContextManager[None]:
        """Marks in this rank's recording that it waits for these operations."""
        recorder = self.group.recorders.get(self.rank)
        wants = any(not t.is_send and t.message is None for t in transfers)
        return recorder.waiting() if recorder is not None and wants else nullcontext()

    def _begin(self, transfer: PostedOperation) -> None:
        if transfer.is_send:
            payload = string_at(transfer.address, transfer.nbytes) if transfer.nbytes else b""
            self.group.sent[self.rank, transfer.peer] += 1
            number = self.group.sent[self.rank, transfer.peer]
            message = transfer.message = MessageInFlight(
                self.rank, transfer.tag, transfer.dtype, payload, number, transfer.at_most
            )
            self._note(Event.SEND, message, self.rank, transfer.peer)
            box = self.box(transfer.peer)
            wanting = next((t for t in box.posted if t.wants(message)), None)
            if wanting is None:
                box.unexpected.append(message)
            else:
                box.posted.remove(wanting)
                self._give(message, wanting, transfer.peer)
            self.group.changed.notify_all()
            return
        box = self.box(self.rank)
        found = next((message for message in box.unexpected if transfer.wants(message)), None)
        if found is None:
            box.posted.append(transfer)
        else:
            box.unexpected.remove(found)
            self._give(found, transfer, self.rank)

    def _give(self, message: MessageInFlight, transfer: PostedOperation, receiver: int) -> None:
        nbytes, names = len(message.payload), self.group.names
        fits = transfer.nbytes in (-1, nbytes) or (transfer.at_most and nbytes < transfer.nbytes)
        if not fits or message.dtype != transfer.dtype:
            by = f"by {_own_name(message.tag)}" if message.tag < ANY else f"with tag {message.tag}"
            self.group.poison(
                Mismatch,
                f"rank {names[message.source]} sent {nbytes} bytes of {_label(message.dtype)} {by} "
                f"where rank {names[receiver]} receives {transfer}",
            )
            return
        if transfer.address and nbytes:
            memmove(transfer.address, message.payload, nbytes)
        transfer.message = message
        if message.synchronous:
            self._acknowledge(message, receiver)
        if message.source != receiver:
            self.group.received[receiver][message.source] += (nbytes, 1)
        self._note(Event.WAIT, message, receiver, message.source)

    def _acknowledge(self, message: MessageInFlight, receiver: int) -> None:
        """Ends a synchronous send: its rank waits for a message of no bytes from the receiver."""
        answer = MessageInFlight(receiver, ACKNOWLEDGEMENT + message.tag, message.dtype, b"", 0)
        box = self.box(message.source)
        wanting = next((t for t in box.posted if t.wants(answer)), None)
        if wanting is None:
            box.unexpected.append(answer)
        else:
            box.posted.remove(wanting)
            wanting.message = answer
        self.group.changed.notify_all()

    def _note(self, kind: Event, message: MessageInFlight, rank: int, peer: int) -> None:
        """Records an event of a message for that rank, where it records; messages to itself are not recorded."""
        recorder = self.group.recorders.get(rank)
        if recorder is not None and rank != peer:
            size, tag = len(message.payload), message.tag
            dtype = Dtype(message.dtype) if message.dtype in _CODES else Dtype.UINT8
            recorder.note_message(kind, peer, size, message.number, message_name(dtype, size, tag), tag)

    def _wait(
        self,
        found: Callable[[], int],
        transfers: list[PostedOperation],
        limit_s: float,
        patience_s: float | None = None,
    ) -> int:
        """Waits until found() is a position, below 0 while there is none; -1 after `limit_s`. A timeout raises."""
        patience = self.timeout_s if patience_s is None else patience_s
        position = found()
        if position >= 0:
            return position
        what = ", ".join(self._where(t) for t in transfers if t.message is None)
        limit = patience if limit_s < 0 else limit_s
        came = self.group.wait(self.rank, lambda: found() >= 0, what, lambda: self._gone(transfers), limit, True)
        if not came and limit_s < 0:
            raise TimedOut(f"rank {self.group.names[self.rank]} waited {patience:g} s for {what}")
        return found()

    def _where(self, transfer: PostedOperation) -> str:
        sender = "any rank" if transfer.peer == ANY else f"rank {self.group.names[transfer.peer]}"
        if transfer.tag < ANY:
            return f"{_own_name(transfer.tag)} from {sender}"
        return f"a message from {sender}, {'any tag' if transfer.tag == ANY else f'tag {transfer.tag}'}"

    def _gone(self, transfers: list[PostedOperation]) -> list[int]:
        """Ranks that have left and are waited for; one of them all if any would do."""
        others = [rank for rank in range(len(self.group.names)) if rank != self.rank]
        gone = []
        for transfer in transfers:
            if transfer.message is None:
                whose = others if transfer.peer == ANY else [transfer.peer]
                if whose and self.group.left.issuperset(whose):
                    gone.append(whose[0])
        return gone

    def _numbered(self, number: int) -> PostedOperation:
        if number not in self.transfers:
            raise ValueError(f"no message {number} is under way")
        return self.transfers[number]


def message_name(dtype: Dtype, nbytes: int, tag: int) -> str:
    """The name of a message in a trace, such as "message(float32, count 8, tag 3)"."""
    if tag == PARTS:
        return f"exchange_parts({dtype.label})"
    count = f"{dtype.label}, count {nbytes // dtype.itemsize}"
    return f"copy({count})" if tag == COPY else f"message({count}, tag {tag})"


def _own_name(tag: int) -> str:
    return {COPY: "copy", PARTS: "exchange_parts", CLOCKS: "reading of clocks"}.get(tag, f"messages {tag}")


def _label(dtype: int) -> str:
    return Dtype(dtype).label if dtype in _CODES else f"opaque type {dtype}"
