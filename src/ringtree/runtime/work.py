"""A collective that was started and not waited for."""

from __future__ import annotations

from typing import Any

from ringtree.runtime.engine import Seat


class Work:
    """What `async_op=True` returns. Until it is done, neither read its output nor write its input."""

    __slots__ = ("_result", "_seat", "_ticket")

    def __init__(self, seat: Seat, ticket: int, result: Any) -> None:
        self._seat, self._ticket, self._result = seat, ticket, result

    def done(self) -> bool:
        """Whether it has ended, well or badly; never waits."""
        return self._seat.done(self._ticket)

    def wait(self, timeout: float | None = None) -> bool:
        """Waits; False when `timeout` seconds passed first. Raises what the collective raised."""
        return self._seat.wait(self._ticket, -1.0 if timeout is None else float(timeout))

    def result(self) -> Any:
        """Waits, and returns what the call would have returned."""
        self.wait()
        return self._result
