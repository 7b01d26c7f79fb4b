"""Wires, which carry frames to ranks of other hosts.

A wire is a line in WIRES, a class that is an `End`, and a line in csrc/bindings/network.cc.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, cast

if TYPE_CHECKING:
    from ringtree.runtime.bootstrap.protocols import NetworkBootstrap

WIRES = {
    "tcp": "ringtree.runtime.engines.wires.tcp:TcpEnd",
    "ucx": "ringtree.runtime.engines.wires.ucx:UcxEnd",
}
"""Name -> module:class."""
VARIABLE = "RINGTREE_WIRE"
DEFAULT = "tcp"
NO_PROOF = bytes(32)


@dataclass(frozen=True, slots=True)
class Remote:
    """A member of a group as a wire needs it. `name`: the member's. `address`: its end's; None for a member of this
    host, which the wire does not reach. `to_it`, `from_it`: the proofs that this rank presents to it where it opens a
    connection, and that it has to present here; `answer_to_it`, `answer_from_it`: those of who takes the connection."""

    name: str
    address: Any
    to_it: bytes = NO_PROOF
    from_it: bytes = NO_PROOF
    answer_to_it: bytes = NO_PROOF
    answer_from_it: bytes = NO_PROOF


class End(Protocol):
    """A rank's end of a wire, for one group; others reach it from its making on, by `address`, a small value. The
    making raises RuntimeError where this machine lacks the wire."""

    address: Any

    def unreached(self, name: str, remote: Remote, timeout_s: float) -> str:
        """The reason why rank `name`, whose end this is, does not reach that one; "" where it does, or where only a
        call finds out."""
        ...

    def network(self, hosts: list[int], group: int, members: Sequence[Remote]) -> Any:
        """Returns the native Network, which takes the end over. `group`: a digest of the group's key."""
        ...

    def close(self) -> None:
        """Closes the end, where no group came of it."""
        ...


def chosen(env: Mapping[str, str] | None = None) -> str:
    """The name of the wire that the environment asks for. ValueError for none of the table."""
    name = (os.environ if env is None else env).get(VARIABLE) or DEFAULT
    if name not in WIRES:
        raise ValueError(f"{VARIABLE} is {name!r}: expected one of {', '.join(WIRES)}")
    return name


def end(name: str, bootstrap: NetworkBootstrap) -> End:
    """A new end of that wire."""
    module, _, kind = WIRES[name].partition(":")
    return cast("End", getattr(import_module(module), kind)(bootstrap))
