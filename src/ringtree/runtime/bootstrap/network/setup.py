"""A setup at rank 0's server: all ranks make a world in several steps, and hear of a failure in between."""

from __future__ import annotations

import contextlib
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ringtree.errors import PeerDied
from ringtree.runtime.bootstrap.bootstrap import BootstrapGroup
from ringtree.runtime.bootstrap.network.connection import of_wire
from ringtree.runtime.bootstrap.network.server import READY

if TYPE_CHECKING:
    from ringtree.runtime.bootstrap.network.rendezvous import Rendezvous

CHECK_S = 0.1
NOTED_S = 1.0
"""Seconds that rank 0 may take to note that this rank has failed."""
REASON_CHARS = 600
"""The length of a rank's error that the other ranks get."""


class Setup:
    """All ranks make a world, in several steps: if one fails in between, or its process ends, the others hear of it.

    A context, left when all ranks are ready. `check` is a liveness check, and raises what another rank failed with.
    """

    def __init__(self, rendezvous: Rendezvous, world: BootstrapGroup) -> None:
        self._rendezvous, self._world = rendezvous, world
        self.failed = False
        """Whether another rank's failure has arrived."""

    def __enter__(self) -> Setup:
        world = self._world
        self.connection = self._rendezvous.take(world.subject, world.timeout_s)
        self._rendezvous.setups.append(self)
        try:
            self.connection.send({"begin": world.key, "subject": world.subject})
        except OSError as error:  # the first exchange raises the wire's
            if not of_wire(error):
                self._fail(error)
                raise
        return self

    def concerns(self, key: str) -> bool:
        """Whether a meeting is one of the setup's."""
        return key == self._world.key or key.startswith(self._world.key + "/")

    def check(self, absent: list[int]) -> None:
        """Raises where a rank has failed, or rank 0 has ended; does not wait."""
        wire, message = self.connection.wire, None
        wire.settimeout(0)
        try:
            message = self.connection.receive()
        except OSError as error:
            if not of_wire(error):
                raise
            self.failed = True
            raise self._rendezvous.ended(self._world.subject) from None
        finally:
            with contextlib.suppress(OSError):
                wire.settimeout(CHECK_S)
        if message is None:
            return
        self.failed = "failed" in message
        raise_failure(message)
        self.connection.put_back(message)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            try:
                world = self._world
                self._rendezvous.exchange(world._replace(key=world.key + READY))
            except BaseException as late:
                self._fail(late)
                raise
            self._rendezvous.setups.remove(self)
            self._rendezvous.put(self.connection)
        else:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        """Sends the other ranks the reason, and returns when rank 0's server has it."""
        self._rendezvous.setups.remove(self)
        if not self.failed:
            why = (f"{type(error).__name__}: {error}".splitlines() or [""])[0][:REASON_CHARS]
            with contextlib.suppress(OSError):
                self.connection.wire.settimeout(NOTED_S)
                self.connection.send({"fail": self._world.key, "why": why})
                while "noted" not in self.connection.whole(NOTED_S):
                    pass
        self.connection.leave()


def raise_failure(answer: dict[str, Any]) -> None:
    """Raises the failure of another rank, where the answer is one: PeerDied if its process ended."""
    if "failed" in answer:
        raise PeerDied(answer["failed"], answer["rank"]) if answer.get("ended") else RuntimeError(answer["failed"])
