"""How ranks that are threads of one process meet: in a table."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field
from typing import Any

from ringtree.runtime.bootstrap.bootstrap import BootstrapGroup


@dataclass(eq=False)
class _Meeting:
    names: tuple[str, ...]
    values: dict[int, Any] = field(default_factory=dict)
    error: TimeoutError | None = None

    def ended(self) -> bool:
        return self.error is not None or len(self.values) == len(self.names)


class InProcess:
    """A Bootstrap whose values may be any objects: members get the very ones."""

    def __init__(self) -> None:
        self._meetings: dict[str, _Meeting] = {}
        self._changed = threading.Condition()

    def exchange(self, group: BootstrapGroup, value: Any = None) -> list[Any]:
        """Each member's value, the object itself; raises as Bootstrap.exchange does."""
        names, key = tuple(group.names), f"{os.getpid()}/{group.key}"  # a fork has the table, and none of its threads
        with self._changed:
            meeting = self._meetings.setdefault(key, _Meeting(names))
            if meeting.names != names or group.rank in meeting.values:
                raise RuntimeError(f"two threads say they are {group.named([group.rank])} of {group.subject}")
            meeting.values[group.rank] = value
            if not meeting.ended() and not self._changed.wait_for(meeting.ended, group.timeout_s):
                meeting.error = group.missing([rank for rank in range(group.size) if rank not in meeting.values])
            if self._meetings.get(key) is meeting:  # the key is free for the next
                del self._meetings[key]
                self._changed.notify_all()
        if meeting.error is not None:
            raise meeting.error
        return [meeting.values[rank] for rank in range(group.size)]


IN_PROCESS = InProcess()
"""This process's table."""
