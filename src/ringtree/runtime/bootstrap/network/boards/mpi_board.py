"""Rank 0 broadcasts where its server is, by the communicator of an MPI for Python."""

from __future__ import annotations

from typing import Any

from ringtree.runtime.bootstrap.network.contact import Contact


class MpiBoard:
    """A Board. `comm`: mpi4py's communicator of all ranks, in which each broadcasts once, and waits as long as MPI
    does."""

    given: Contact | None = None
    several = True
    where = "the address that rank 0 broadcast by MPI"

    def __init__(self, comm: Any, secret: bytes) -> None:
        self._comm, self.secret = comm, secret
        self._received: str | None = None

    def announce(self, contact: Contact) -> None:
        """Broadcasts the contact."""
        self._comm.bcast(contact.text(), root=0)

    def give_up(self, why: str) -> None:
        """Broadcasts that there is none."""
        self._comm.bcast(f"failed: {why}", root=0)

    def read(self, timeout_s: float) -> Contact | None:
        """The broadcast of rank 0. RuntimeError where rank 0 has no server."""
        if self._received is None:
            self._received = str(self._comm.bcast(None, root=0))
        if self._received.startswith("failed: "):
            raise RuntimeError(f"rank 0 failed before the ranks met: {self._received.removeprefix('failed: ')}")
        return Contact.of(self._received)

    def withdraw(self) -> None:
        """Nothing stays."""
