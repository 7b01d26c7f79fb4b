"""The hosts of a group's members, as far as the system names them, and the members that cannot reach the first one.

A successful bootstrap (runtime.bootstrap.local.abstract_socket) proves that ranks are on one machine. A member that
cannot reach the first member there reports so in the store; the members then meet over hosts.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

AGAIN_S = 0.5
"""Seconds for which a member that reported that it cannot reach the first may still arrive: it may have been early."""
SURELY, PERHAPS = "surely", "perhaps"


@dataclass(frozen=True, slots=True)
class Host:
    """The host of a process. `boot` is one machine's from its start to its end, `network` one network namespace's
    there, which an abstract unix socket does not leave; "" where the system does not report it."""

    name: str
    boot: str
    network: str

    @classmethod
    def here(cls) -> Host:
        """The host of this process, from /proc."""
        try:
            boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        except OSError:
            boot = ""
        try:
            network = os.readlink("/proc/thread-self/ns/net")
        except OSError:
            network = ""
        return cls(socket.gethostname(), boot, network)

    def surely_apart(self, other: Host) -> bool:
        """Whether the two differ in boot id or network namespace, both known."""
        return _differ(self.boot, other.boot) or _differ(self.network, other.network)


def _differ(one: str, other: str) -> bool:
    return bool(one and other and one != other)


class Apart:
    """The members that cannot reach the first member in one bootstrap, in its store."""

    def __init__(self, store: Any, key: str) -> None:
        self._store, self._key = store, f"ringtree/{key}/apart"
        self._seen_s: dict[int, float] = {}
        self._looked_s = 0.0

    def report(self, member: int, surely: bool) -> None:
        """Writes into the store that `member` cannot reach the first member; `surely`: since their hosts differ."""
        self._store.set(f"{self._key}/{member}", SURELY if surely else PERHAPS)
        self._store.set(self._key, "1")

    def any_of(self, absent: Sequence[int], every_s: float = 0.1) -> bool:
        """Whether one of the absent members has reported that it cannot reach the first. Asks the store at most every
        `every_s` seconds, and returns False in between."""
        now_s = time.monotonic()
        if not absent or now_s < self._looked_s + every_s:
            return False
        self._looked_s = now_s
        if not self._store.check([self._key]):
            return False
        for m in absent:
            if m not in self._seen_s and self._store.check([f"{self._key}/{m}"]):
                surely = bytes(self._store.get(f"{self._key}/{m}")).decode() == SURELY
                self._seen_s[m] = now_s - AGAIN_S if surely else now_s
        return any(m in self._seen_s and now_s >= self._seen_s[m] + AGAIN_S for m in absent)
