"""Wires: how frames reach ranks of other hosts.

A wire is a line in WIRES, a module with a class `Listening` (an `End`), and a line in csrc/bindings/network.cc.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol, cast

from ringtree.runtime.bootstrap.bootstrap import NetworkBootstrap

WIRES = {
    "tcp": "ringtree.runtime.engines.wires.tcp",
    "ucx": "ringtree.runtime.engines.wires.ucx",
}
"""Name -> module."""
VARIABLE = "RINGTREE_WIRE"
DEFAULT = "tcp"
NO_PROOF = bytes(32)


@dataclass(frozen=True, slots=True)
class Remote:
    """A member of a group as a wire needs it. `address`: its end's; None for a member of this host, which the wire
    does not reach. `to_it`, `from_it`: the proofs that this rank presents to it, and that it has to present here."""

    address: Any
    to_it: bytes = NO_PROOF
    from_it: bytes = NO_PROOF


class End(Protocol):
    """A rank's end of a wire, for one group; others reach it from its making on. `address` is what they need, as a
    small value. The making raises RuntimeError where this machine lacks the wire."""

    address: Any

    def network(self, hosts: list[int], group: int, members: Sequence[Remote]) -> Any:
        """The native Network, which takes the end over. `group`: a digest of the group's key."""
        ...

    def close(self) -> None:
        """Where no group came of it."""
        ...


def chosen(env: Mapping[str, str] | None = None) -> str:
    """The name of the wire that the environment asks for. ValueError for none of the table."""
    name = (os.environ if env is None else env).get(VARIABLE) or DEFAULT
    if name not in WIRES:
        raise ValueError(f"{VARIABLE} is {name!r}: expected one of {', '.join(WIRES)}")
    return name


def end(name: str, bootstrap: NetworkBootstrap) -> End:
    """A new end of that wire."""
    return cast("End", import_module(WIRES[name]).Listening(bootstrap))
