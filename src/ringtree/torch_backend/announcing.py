"""The entry of a group's store by which its members find the first one.

It holds a fresh bootstrap key and the first member's host. Where the members are on several hosts, it also holds, until
all have met, where the first member's server is, and a secret that the first member has made.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from ringtree.runtime.bootstrap.bootstrap import Abandoned
from ringtree.runtime.bootstrap.environment import SECRET, secret_bytes
from ringtree.runtime.bootstrap.network.contact import Contact
from ringtree.torch_backend.locality import Host

ANNOUNCED = "ringtree/announced"
"""The entry's key in the group's store."""
READ_S = 0.05
"""Seconds between two looks at the entry by a member that waits for the server."""


@dataclass(frozen=True, slots=True)
class Announced:
    """The entry. `over_hosts`: the members meet at the first one's server. `contact`: Contact.text() of it, "" where it
    is not there yet, or all have met."""

    key: str
    host: Host
    over_hosts: bool = False
    contact: str = ""

    def write(self, store: Any) -> None:
        """Replaces the entry."""
        store.set(ANNOUNCED, json.dumps(asdict(self)))

    @classmethod
    def read(cls, store: Any) -> Announced:
        """The entry as it is now; waits for it where there is none, as torch's stores do."""
        fields = json.loads(store.get(ANNOUNCED))
        return cls(**{**fields, "host": Host(**fields["host"])})


class StoreEntry:
    """The entry as a Board. A member that reads another key there than `entry`'s raises Abandoned. `check` is called
    now and then while a member waits, and raises where it waits in vain."""

    given: Contact | None = None
    several = True
    where = "the address in the group's store"

    def __init__(self, store: Any, entry: Announced, check: Callable[[], None]) -> None:
        self._store, self._entry, self._check = store, entry, check
        self.secret = secret_bytes(os.environ.get(SECRET))

    def announce(self, contact: Contact) -> None:
        """Writes the contact: first the address at which the ranks have reached the store, if it is this host's."""
        known = _addresses_of_store(self._store)
        addresses = sorted(contact.addresses, key=lambda address: address not in known)
        first = Contact(tuple(addresses), contact.port, contact.secret)
        Announced(self._entry.key, self._entry.host, True, first.text()).write(self._store)

    def give_up(self, why: str) -> None:
        """Nothing: the first member reports its failure in the store (see creation)."""

    def read(self, timeout_s: float) -> Contact | None:
        """The contact, once it is there."""
        entry = Announced.read(self._store)
        if entry.key != self._entry.key:
            raise Abandoned("the store's entry is another attempt's")
        self._check()
        if not entry.contact:
            time.sleep(min(timeout_s, READ_S))
            return None
        return Contact.of(entry.contact)

    def withdraw(self) -> None:
        """Removes contact and secret."""
        Announced(self._entry.key, self._entry.host, True).write(self._store)


def _addresses_of_store(store: Any) -> set[str]:
    """The numeric addresses of the host that serves the store: a TCPStore's, else MASTER_ADDR's."""
    under = getattr(store, "_underlying_non_prefix_store", store)
    name = getattr(under, "host", "") or os.environ.get("MASTER_ADDR", "")
    try:
        return {str(at[0]) for *_, at in socket.getaddrinfo(name, None)} if name else set()
    except OSError:
        return set()
