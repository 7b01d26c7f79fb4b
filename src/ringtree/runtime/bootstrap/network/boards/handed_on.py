"""The contact of a new rank 0 that goes from hand to hand: each has it from the one who announced it."""

from __future__ import annotations

from ringtree.runtime.bootstrap.network.contact import Contact


class HandedOn:
    """A Board of ranks that are in contact already, by other means. `contact`: what rank 0 has announced; `answered`:
    the one of its addresses at which rank 0 has answered this rank."""

    given: Contact | None = None
    several = True
    secret = b""
    where = "the new rank 0"

    def __init__(self, contact: Contact | None = None, answered: str = "") -> None:
        self.contact, self._answered = contact, answered

    def has_ended(self, refused: set[str]) -> bool:
        """Whether rank 0 has ended, where these addresses refuse: it listened before its contact was handed on."""
        known = self.contact.addresses if self.contact else ()
        return self._answered in refused or (len(refused) > 0 and refused.issuperset(known))

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
