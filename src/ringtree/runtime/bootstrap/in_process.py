"""The bootstrap of ranks that are threads of one process: in a table."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field
from typing import Any

from ringtree.runtime.bootstrap.bootstrap import BootstrapGroup


@dataclass(eq=False)
class _Exchange:
    names: tuple[str, ...]
    values: dict[int, Any] = field(default_factory=dict)
    error: TimeoutError | None = None

    def ended(self) -> bool:
        return self.error is not None or len(self.values) == len(self.names)


class InProcess:
    """A Bootstrap whose values may be any objects: members get the very ones."""

    def __init__(self) -> None:
        self._exchanges: dict[str, _Exchange] = {}
        self._changed = threading.Condition()

    def exchange(self, group: BootstrapGroup, value: Any = None) -> list[Any]:
        """Each member's value, the object itself; raises as Bootstrap.exchange does."""
        names, key = tuple(group.names), f"{os.getpid()}/{group.key}"  # a fork has the table, and none of its threads
        with self._changed:
            exchange = self._exchanges.setdefault(key, _Exchange(names))
            if exchange.names != names or group.rank in exchange.values:
                raise RuntimeError(f"two threads claim to be {group.named([group.rank])} of {group.subject}")
            exchange.values[group.rank] = value
            if not exchange.ended() and not self._changed.wait_for(exchange.ended, group.timeout_s):
                exchange.error = group.missing([rank for rank in range(group.size) if rank not in exchange.values])
            if self._exchanges.get(key) is exchange:  # the key is free for the next
                del self._exchanges[key]
                self._changed.notify_all()
        if exchange.error is not None:
            raise exchange.error
        group.complete()
        return [exchange.values[rank] for rank in range(group.size)]


IN_PROCESS = InProcess()
"""This process's table."""
