"""Point to point: one message, or a batch of sends and receives that start together and so cannot block each other."""

from __future__ import annotations

import operator
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ringtree.runtime.arrays import Array, readable, writable

if TYPE_CHECKING:
    from typing_extensions import Self

Operation = tuple[bool, int, int, int, int, int]
"""(is it a send, peer, tag, address, bytes, type's code), as engines take them."""


def sending(x: Any, dst: int, tag: int, size: int) -> tuple[Operation, Array]:
    array = readable(x)
    return (True, _peer(dst, size), _tag(tag), array.address, array.nbytes, int(array.dtype)), array


def receiving(x: Any, src: int, tag: int, size: int) -> tuple[Operation, Array]:
    array = writable(x, "the array to receive into")
    return (False, _peer(src, size), _tag(tag), array.address, array.nbytes, int(array.dtype)), array


class Batch:
    """Sends and receives that are collected in a `with` block, and done together at its end:

    with comm.batch() as b:
        b.send(x, right)
        b.recv(y, left)
    """

    def __init__(self, size: int, exchange: Callable[[list[Operation]], None]) -> None:
        self._size, self._exchange = size, exchange
        self._operations: list[Operation] = []
        self._arrays: list[Array] = []

    def send(self, x: Any, dst: int, tag: int = 0) -> None:
        """Adds a message to `dst`; `x` must stay as it is until the block ends."""
        self._add(*sending(x, dst, tag, self._size))

    def recv(self, x: Any, src: int, tag: int = 0) -> Any:
        """Adds a message from `src`; returns `x`, filled when the block has ended."""
        self._add(*receiving(x, src, tag, self._size))
        return x

    def _add(self, operation: Operation, array: Array) -> None:
        self._operations.append(operation)
        self._arrays.append(array)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        operations, self._operations = self._operations, []
        if kind is None and operations:
            self._exchange(operations)
        self._arrays.clear()


def _peer(rank: int, size: int) -> int:
    number = operator.index(rank)
    if not 0 <= number < size:
        raise ValueError(f"no rank {number} to exchange messages with: expected 0..{size - 1}")
    return number


def _tag(tag: int) -> int:
    number = operator.index(tag)
    if not 0 <= number < 1 << 31:
        raise ValueError(f"tag {number}: expected 0..{(1 << 31) - 1}")
    return number
