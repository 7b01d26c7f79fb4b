"""The variables by which torch.distributed finds the ranks of a job (`env://`), as torchrun sets them.

With them a program of torch's runs under `ringtree run` as it does under torchrun. Rank 0 serves torch's store at a
port that the launcher of its host keeps bound.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Mapping

HERE = "127.0.0.1"
STORE = ("MASTER_ADDR", "MASTER_PORT")
REPLACES = "RINGTREE_REPLACES"
REPLACEABLE = ("gloo",)
"""The backends of torch's whose place ringtree takes."""


class StorePort:
    """A free port of this host, kept from other programs until it is closed: two sockets may be bound to a port as long
    as one listens at most, and torch's store listens."""

    def __init__(self) -> None:
        family = socket.AF_INET6 if socket.has_ipv6 else socket.AF_INET
        try:
            self._kept = socket.socket(family, socket.SOCK_STREAM)
        except OSError:  # a kernel without IPv6
            self._kept = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if self._kept.family == socket.AF_INET6:
            with contextlib.suppress(OSError):
                self._kept.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        self._kept.bind(("", 0))
        self.number: int = self._kept.getsockname()[1]

    def close(self) -> None:
        """Lets go of the port."""
        self._kept.close()


def store_variables(host: str | None, port: int, env: Mapping[str, str]) -> dict[str, str]:
    """The place of torch's store, alike for all ranks: the address and the port that the user chose, and of what he did
    not choose these, as far as a host is known. Inside a rank of another job the chosen place is that job's."""
    chosen = {} if "RANK" in env else {name: env[name] for name in STORE if env.get(name)}
    if host is None and STORE[0] not in chosen:
        return chosen
    return {**dict(zip(STORE, (str(host), str(port)), strict=True)), **chosen}


def rank_variables(rank: int, size: str, place: int, here: int) -> dict[str, str]:
    """The numbers of a rank: in the job, and by `place` among the `here` ranks of its host."""
    return {"RANK": str(rank), "WORLD_SIZE": size, "LOCAL_RANK": str(place), "LOCAL_WORLD_SIZE": str(here)}


def replaced_of(env: Mapping[str, str]) -> list[str]:
    """The backends that RINGTREE_REPLACES names, with commas between them. ValueError: for one that is not
    replaceable."""
    text = env.get(REPLACES, "")
    names = [name for part in text.split(",") if (name := part.strip().lower())]
    for name in names:
        if name not in REPLACEABLE:
            raise ValueError(
                f'{REPLACES} is {text!r}: ringtree takes the place of "{REPLACEABLE[0]}" only; got {name!r}'
            )
    return names
