"""Messages between two ranks, as methods of the communicator."""

from __future__ import annotations

from typing import Any

from ringtree.runtime.messages import Batch, Operation, receiving, sending
from ringtree.runtime.seated import Seated


class PointToPoint(Seated):
    """Messages between two ranks with one tag keep their order."""

    def send(self, x: Any, dst: int, tag: int = 0) -> None:
        """Returns when `x` may be changed again, which may be before `dst` has received it."""
        operation, _array = sending(x, dst, tag, self.size)
        self._seat.exchange([operation], self._terms.timeout_s)

    def recv(self, x: Any, src: int, tag: int = 0) -> Any:
        """Fills `x` with the oldest message of that tag from `src`, which must be of its size and type; returns it."""
        operation, _array = receiving(x, src, tag, self.size)
        self._seat.exchange([operation], self._terms.timeout_s)
        return x

    def batch(self) -> Batch:
        """Sends and receives that start together: see Batch."""
        return Batch(self.size, self._exchange)

    def _exchange(self, operations: list[Operation]) -> None:
        self._seat.exchange(operations, self._terms.timeout_s)
