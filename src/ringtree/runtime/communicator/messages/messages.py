"""Point to point: operations as engines take them, batches of them, and the arrays kept while one is under way."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

from ringtree.errors import Mismatch, PeerDied, Poisoned, TimedOut
from ringtree.runtime import arrays
from ringtree.runtime.communicator.arguments import whole
from ringtree.runtime.communicator.messages.work import Message
from ringtree.runtime.engines.tags import ANY

if TYPE_CHECKING:
    from typing_extensions import Self

    from ringtree.runtime.arrays import Array
    from ringtree.runtime.engines.protocols import MessageOperation, Messages


class MessageStatus(NamedTuple):
    """A message's source, tag and number of bytes."""

    source: int
    tag: int
    nbytes: int


def sending(x: Any, dst: int, tag: int, size: int) -> tuple[MessageOperation, Array]:
    """The operation that sends x to rank `dst` of `size`, and the array that must outlive it."""
    array = arrays.readable(x, moved=True)
    return (True, peer(dst, size), tag_of(tag), array.address, array.nbytes, array.code, False), array


def receiving(x: Any, src: int, tag: int, size: int, at_most: bool = False) -> tuple[MessageOperation, Array]:
    """The operation that receives into x from rank `src` of `size` or ANY, and the array that must outlive it."""
    array = arrays.writable(x, "the array to receive into", moved=True)
    whose, which = source(src, size), tag_wanted(tag)
    return (False, whose, which, array.address, array.nbytes, array.code, bool(at_most)), array


class PendingMessages:
    """A rank's non-blocking messages. An array stays alive until the engine is done with it, its Message or not."""

    def __init__(self, endpoint: Messages) -> None:
        self._endpoint = endpoint
        self._kept: dict[int, Array] = {}
        self._dropped: deque[int] = deque()  # whose Message is gone

    def post(self, operation: MessageOperation, array: Array, result: Any) -> Message:
        """Begins it. `result`: what the Message is to return, or how to make that from the number of bytes."""
        self._sweep()
        number = self._endpoint.post(operation)
        self._kept[number] = array
        return Message(self, self._endpoint, number, result)

    def done(self, number: int) -> None:
        """The engine will not touch the array any more."""
        self._kept.pop(number, None)

    def forget(self, number: int) -> None:
        """Nobody asks for the message any more. May come from any thread, at any moment."""
        self._dropped.append(number)

    def _sweep(self) -> None:
        """Lets go of the forgotten that are done, until it has met two that are not: those go to the end."""
        for _ in range(2):
            number = self._first_open()
            if number is not None:
                self._dropped.append(number)

    def _first_open(self) -> int | None:
        """The first of the forgotten that is not done, taken off the list as those before it are; None if all are."""
        while self._dropped:
            try:
                number = self._dropped.popleft()
            except IndexError:  # another thread took the last
                return None
            if not self._endpoint.drop(number):
                return number
            self._kept.pop(number, None)
        return None

    def in_use(self) -> bool:
        """Whether a message is under way, or has ended and its Message has not seen it."""
        dropped = set(self._dropped.copy())
        kept = list(self._kept)
        if not dropped.issuperset(kept):
            return True
        try:
            return not all(self._endpoint.test(number) for number in kept)
        except (PeerDied, Mismatch, TimedOut, Poisoned):  # the group has failed: nothing is under way
            return False

    def settle(self) -> None:
        """Waits for all messages, as long as the group's timeout; raises their error."""
        if numbers := list(self._kept):
            self._endpoint.complete(numbers, False, -1.0)

    def replace_endpoint(self, other: Messages) -> None:
        """Messages go through `other` from now on."""
        self._endpoint = other

    def let_go(self) -> None:
        """Lets go of the arrays; only when the engine works on them no more."""
        self._kept.clear()


class Batch:
    """Sends and receives that are collected in a `with` block, and done together at its end:

    with comm.batch() as b:
        b.send(x, right)
        b.recv(y, left)
    """

    def __init__(self, size: int, exchange: Callable[[list[MessageOperation]], object]) -> None:
        self._size, self._exchange = size, exchange
        self._operations: list[MessageOperation] = []
        self._arrays: list[Array] = []
        self._open = False

    def send(self, x: Any, dst: int, tag: int = 0) -> None:
        """Adds a message to `dst`; `x` must stay as it is until the block ends."""
        self._add(*sending(x, dst, tag, self._size))

    def recv(self, x: Any, src: int = ANY, tag: int = 0) -> Any:
        """Adds a message from `src`; returns `x`, filled when the block has ended."""
        self._add(*receiving(x, src, tag, self._size))
        return x

    def _add(self, operation: MessageOperation, array: Array) -> None:
        if not self._open:
            raise RuntimeError("a message for a batch that is not open; expected it within `with comm.batch() as b:`")
        self._operations.append(operation)
        self._arrays.append(array)

    def __enter__(self) -> Self:
        self._open = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        operations, self._operations, self._open = self._operations, [], False
        if kind is None and operations:
            self._exchange(operations)
        self._arrays.clear()


def peer(rank: int, size: int) -> int:
    """The rank as an int; ValueError unless it is one of `size` ranks."""
    number = whole(rank, "rank")
    if not 0 <= number < size:
        alone = "; this group has one rank: `ringtree run -n 2 PROGRAM` starts two" if size == 1 else ""
        raise ValueError(f"no rank {number} to exchange messages with: expected 0..{size - 1}{alone}")
    return number


def source(rank: int, size: int) -> int:
    """The rank as `peer` checks it, or ANY."""
    number = whole(rank, "rank")
    return ANY if number == ANY else peer(number, size)


def tag_of(tag: int) -> int:
    """The tag of a send as an int; ValueError outside 0..2^31-1."""
    number = whole(tag, "tag")
    if not 0 <= number < 1 << 31:
        raise ValueError(f"tag {number}: expected 0..{(1 << 31) - 1}")
    return number


def tag_wanted(tag: int) -> int:
    """The tag of a receive, where ANY is allowed."""
    number = whole(tag, "tag")
    return ANY if number == ANY else tag_of(number)
