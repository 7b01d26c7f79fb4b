"""The contact of a new rank 0 that goes from hand to hand: each has it from the one who announced it."""

from __future__ import annotations

from ringtree.runtime.bootstrap.network.contact import Contact


class HandedOn:
    """A Board of ranks that are in contact already, by other means. `contact`: what rank 0 has announced."""

    given: Contact | None = None
    several = True
    secret = b""
    where = "the new rank 0"

    def __init__(self, contact: Contact | None = None) -> None:
        self.contact = contact

    def announce(self, contact: Contact) -> None:
        """Keeps it, to be handed on."""
        self.contact = contact

    def give_up(self, why: str) -> None:
        """Nothing: the others are in contact."""

    def read(self, timeout_s: float) -> Contact | None:
        """The contact that was handed on."""
        return self.contact

    def withdraw(self) -> None:
        """Nothing: nobody else can read it."""
