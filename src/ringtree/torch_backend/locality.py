"""Reports ranks that are not on one machine.

A successful bootstrap (runtime.bootstrap.abstract_socket) proves that ranks are on one machine. A member that cannot
reach the first member writes its host into the store; the first member makes the error that every member raises.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

AGAIN_S = 0.5
"""Seconds for which a member that reported that it cannot reach the first may still arrive: it may have been early."""


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
    """The hosts of members that cannot reach the first member in one bootstrap, in its store."""

    def __init__(self, store: Any, key: str) -> None:
        self._store, self._key = store, f"ringtree/{key}/apart"
        self._seen_s: dict[int, float] = {}
        self._looked_s = 0.0

    def report(self, member: int, host: Host) -> None:
        """Writes into the store that `member` on `host` cannot reach the first member."""
        self._store.set(f"{self._key}/{member}", json.dumps(asdict(host)))
        self._store.set(self._key, "1")

    def hosts_of(self, absent: Sequence[int], every_s: float = 0.1) -> dict[int, Host]:
        """The hosts of those absent members that reported that they cannot reach the first. Asks the store at most
        every `every_s` seconds, and returns nothing in between."""
        now_s = time.monotonic()
        if not absent or now_s < self._looked_s + every_s:
            return {}
        self._looked_s = now_s
        if not self._store.check([self._key]):
            return {}
        for m in absent:
            if m not in self._seen_s and self._store.check([f"{self._key}/{m}"]):
                self._seen_s[m] = now_s
        reported = [m for m in absent if m in self._seen_s]
        if not any(now_s > self._seen_s[m] + AGAIN_S for m in reported):
            return {}
        return {m: Host(**json.loads(self._store.get(f"{self._key}/{m}"))) for m in reported}


def why_apart(first: Host, others: dict[int, Host], named: Callable[[Sequence[int]], str]) -> str:
    """The error text for ranks that are not on one machine. `named` writes members as ranks."""
    groups: dict[Host, list[int]] = {}
    for member, host in sorted(others.items()):
        groups.setdefault(host, []).append(member)
    if all(host.boot == first.boot for host in groups):
        there = "; ".join(f"{named(members)} in {host.network}" for host, members in groups.items())
        return (
            f"{named([0])} and {named(sorted(others))} are on one machine ({first.name}) and cannot meet, for their "
            f"network namespaces differ ({named([0])} in {first.network}; {there}): give their containers one network"
        )
    names = [host.name for host in (first, *groups)]
    there = ", ".join(
        f"{named(members)} on {host.name}" + (f" (boot {host.boot[:8]})" if names.count(host.name) > 1 else "")
        for host, members in groups.items()
    )
    return (
        f"{named([0])} is on {first.name}"
        + (f" (boot {first.boot[:8]})" if names.count(first.name) > 1 else "")
        + f", {there}: the backend ringtree serves ranks of one machine; "
        "start all of them on one, or take the backend gloo"
    )
