"""The way in which the actors of a collective group meet: rank 0 announces itself in Ray's store of keys."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ringtree.runtime.bootstrap.environment import SECRET, secret_bytes
from ringtree.runtime.bootstrap.local.abstract_socket import ABSTRACT_SOCKET
from ringtree.runtime.bootstrap.network.boards.store_board import StoreBoard
from ringtree.runtime.bootstrap.network.contact import Contact
from ringtree.runtime.bootstrap.network.hosts import MultiHostBootstrap
from ringtree.runtime.communicator.communicator import Communicator
from ringtree.runtime.engines.engine import GroupParameters, default_engine
from ringtree.runtime.tuned import tuned_here

if TYPE_CHECKING:
    from ringtree.runtime.bootstrap.protocols import HostBootstrap

NAMESPACE = "ringtree"
"""The part of Ray's store that has ringtree's keys."""


class KeyValueStore:
    """Ray's store of keys, which the whole cluster shares. An empty value removes its key."""

    def set(self, key: str, value: str, /) -> None:
        """Makes `value` the key's."""
        from ray.experimental import internal_kv

        if value:
            internal_kv._internal_kv_put(key, value, overwrite=True, namespace=NAMESPACE)
        else:
            internal_kv._internal_kv_del(key, namespace=NAMESPACE)

    def get(self, key: str, /) -> bytes | None:
        """The key's value; None without it."""
        from ray.experimental import internal_kv

        value: bytes | None = internal_kv._internal_kv_get(key, namespace=NAMESPACE)
        return value


class KeyValueBoard(StoreBoard):
    """A board in Ray's store for one group. `group`: a name that no other group has at the time."""

    where = "Ray's store of keys"

    def __init__(self, group: str) -> None:
        super().__init__(KeyValueStore(), group, secret_bytes(os.environ.get(SECRET)))

    def announce(self, contact: Contact) -> None:
        """Sets the key. The address by which Ray reaches this node is the first that others try."""
        from ray.util import get_node_ip_address

        node = get_node_ip_address()
        super().announce(replace(contact, addresses=tuple(sorted(contact.addresses, key=lambda it: it != node))))


def meet(group: str, rank: int, size: int, timeout_s: float) -> tuple[Communicator, Callable[[], None]]:
    """This rank's communicator in a new group, when all ranks have called it, and a function that ends both.
    TimeoutError: if a rank does not come. `group`: as KeyValueBoard's."""
    if size == 1:
        alone = _made(f"ray-{os.urandom(8).hex()}", rank, size, timeout_s)
        return alone, alone.close
    hosts = MultiHostBootstrap(KeyValueBoard(group), rank, size, timeout_s)
    made: Communicator | None = None
    try:
        with hosts.setting_up(hosts.key, timeout_s) as check_liveness:
            made = _made(hosts.key, rank, size, timeout_s, hosts, check_liveness)
    except BaseException:
        if made is not None:  # another rank failed at the very end
            made.close()
        hosts.leave()
        hosts.close()
        raise
    communicator = made

    def leave() -> None:
        try:
            communicator.close()
        finally:
            hosts.leave()

    return communicator, leave


def _made(
    key: str, rank: int, size: int, timeout_s: float, bootstrap: HostBootstrap = ABSTRACT_SOCKET, check: Any = None
) -> Communicator:
    names = tuple(map(str, range(size)))
    measured = tuned_here() if rank == 0 else None
    cost, network = (measured.parameters, measured.network) if measured else (None, None)
    parameters = GroupParameters(
        key, rank, names, timeout_s, check_liveness=check, cost=cost, network=network, bootstrap=bootstrap
    )
    return Communicator(default_engine(size), parameters)
