"""The addresses of rank 0's server, and the boards on which the other ranks find them.

A Board is one way to learn it: RINGTREE_ADDRESS (`GivenAddress`, here), a file, a store or MPI (`boards`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Contact:
    """Rank 0's server: numeric addresses (or one host's name) in the order in which to try them, port, secret."""

    addresses: tuple[str, ...]
    port: int
    secret: bytes

    def text(self) -> str:
        """The contact as a line of JSON."""
        return json.dumps({"addresses": self.addresses, "port": self.port, "secret": self.secret.hex()})

    @classmethod
    def of(cls, text: str | bytes) -> Contact:
        """The contact of such a line; ValueError for another text."""
        try:
            fields = json.loads(text)
            return cls(tuple(map(str, fields["addresses"])), int(fields["port"]), bytes.fromhex(fields["secret"]))
        except (KeyError, TypeError, AttributeError, OverflowError, RecursionError):
            raise ValueError("no contact of a rank 0") from None


class Board(Protocol):
    """The place where rank 0 announces its contact, and the other ranks read it."""

    where: str
    """Words for errors: the variable or argument that chose the board, with its value."""
    given: Contact | None
    """The contact, where all ranks know it beforehand: then rank 0 announces nothing."""
    several: bool
    """Whether ranks may reach rank 0 at different addresses of its host."""
    secret: bytes
    """RINGTREE_SECRET, to which the contact's own secret is joined."""

    def announce(self, contact: Contact) -> None:
        """Rank 0's part, once its server listens."""
        ...

    def give_up(self, why: str) -> None:
        """Rank 0's part where it has no server: the others need not wait, if the board can carry that."""
        ...

    def read(self, timeout_s: float) -> Contact | None:
        """The contact that is announced now; waits at most `timeout_s` for one. None where there is none. It may be
        an earlier job's: who reads it connects, and reads again where nobody proves its secret."""
        ...

    def withdraw(self) -> None:
        """Rank 0's part, once all ranks have met."""
        ...


class GivenAddress:
    """RINGTREE_ADDRESS=host:port and RINGTREE_SECRET, which all ranks are started with."""

    several = False

    def __init__(self, address: tuple[str, int], secret: bytes) -> None:
        self.given: Contact | None = Contact((address[0],), address[1], b"")
        self.secret = secret
        self.where = f"RINGTREE_ADDRESS={shown(*address)}"

    def announce(self, contact: Contact) -> None:
        """Nothing: all ranks know it."""

    def give_up(self, why: str) -> None:
        """Nothing: there is nowhere to write it."""

    def read(self, timeout_s: float) -> Contact | None:
        """The address that was given."""
        return self.given

    def withdraw(self) -> None:
        """Nothing."""


class Known(GivenAddress):
    """The board of who has the contact already: rank 0 itself, and the forked children of ranks that have met."""

    several = True

    def __init__(self, contact: Contact, where: str, secret: bytes) -> None:
        self.given, self.where, self.secret = contact, where, secret


def shown(host: str, port: int) -> str:
    """host:port for users; an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
