"""The variables by which torch.distributed finds the ranks of a job (`env://`), as torchrun sets them.

With them a program of torch's runs under `ringtree run` as it does under torchrun. Rank 0 serves torch's store at a
port that the launcher of its host keeps bound.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Mapping

HERE = "127.0.0.1"


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


def names_a_store(env: Mapping[str, str]) -> bool:
    """Whether the user chose the place of torch's store. Inside a rank of another job the place is that job's."""
    return "MASTER_PORT" in env and "RANK" not in env


def store_variables(host: str, port: int) -> dict[str, str]:
    """The place of torch's store, alike for all ranks."""
    return {"MASTER_ADDR": host, "MASTER_PORT": str(port)}


def rank_variables(rank: int, size: str, place: int, here: int) -> dict[str, str]:
    """The numbers of a rank: in the job, and by `place` among the `here` ranks of its host."""
    return {"RANK": str(rank), "WORLD_SIZE": size, "LOCAL_RANK": str(place), "LOCAL_WORLD_SIZE": str(here)}
