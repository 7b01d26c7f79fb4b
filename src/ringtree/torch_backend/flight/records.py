"""The records of the flight recorder: the native module's, and the same in Python where there is none."""

from __future__ import annotations

from collections.abc import Callable
from time import time_ns
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ringtree._native import FlightRecord
else:
    try:
        from ringtree._native import FlightRecord
    except ImportError:

        class FlightRecord:
            """As ringtree._native states it."""

            record, turn, ticket, tag, ended_ns = -1, 0, 0, 0, 0
            failed, peer, event = False, None, None

            @classmethod
            def begun(
                cls,
                recorder: Any,
                name: str,
                number: int,
                inputs: Any,
                outputs: Any,
                describe: Callable[[Any], tuple[Any, ...]],
            ) -> Any:
                """A record of what begins now."""
                made = cls()
                made.recorder, made.name, made.number = recorder, name, number
                given = describe(inputs)
                made._sides = (given, given if outputs is inputs else describe(outputs))
                made.begun_ns = time_ns()
                return made

            def end(self) -> None:
                """Writes the time, once, and ends the event."""
                if self.ended_ns == 0:
                    self.ended_ns = time_ns()
                if self.event is not None:
                    self.event.end()

            def side(self, which: int) -> tuple[Any, ...]:
                """The inputs (0) or the outputs (1), as `describe` returned them."""
                return self._sides[which]


__all__ = ["FlightRecord"]
