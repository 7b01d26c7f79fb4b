"""Ranks on several hosts, which are namespaces of this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ringtree.price import CostParameters  # noqa: F401  # loaded before ranks are forked
from ringtree.runtime.bootstrap.bootstrap import BootstrapGroup
from ringtree.runtime.bootstrap.hosts import Hosts
from ringtree.runtime.engines.engine import GroupParameters
from ringtree.runtime.launch.spawn import Pool
from ringtree.runtime.launch.spawn_processes import Processes
from tests.runtime.conftest import available
from tests.runtime.hosts.lab import Lab, missing

Layout = tuple[int, ...]
"""How many ranks each host has."""
HostPools = Callable[[Layout], Pool]
PORT = 29400
SECRET = b"of the tests"


class Moved:
    """A rank's bootstrap, which moves the rank to its host before it meets anyone."""

    def __init__(self, lab: Lab, host: int, rank: int, size: int, port: int, secret: bytes = SECRET) -> None:
        self._lab, self._host, self._hosts = lab, host, None
        self._arguments: Any = ((lab.address(0), port), secret, rank, size, 20.0)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if self._hosts is None:
            self._lab.enter(self._host)
            self._hosts = Hosts(*self._arguments)
        return getattr(self._hosts, name)

    def exchange(self, group: BootstrapGroup, value: Any = None) -> list[Any]:
        return self.__getattr__("exchange")(group, value)


def host_of(layout: Layout) -> list[int]:
    return [host for host, ranks in enumerate(layout) for _ in range(ranks)]


class HostPool(Pool):
    """A pool whose ranks are on the hosts of a lab."""

    def __init__(self, lab: Lab, layout: Layout, port: int, timeout_s: float = 60.0) -> None:
        places = host_of(layout)
        self.size, names = len(places), tuple(map(str, range(len(places))))
        parameters = [
            GroupParameters(f"lab{port}", rank, names, timeout_s, bootstrap=Moved(lab, host, rank, len(places), port))
            for rank, host in enumerate(places)
        ]
        self._crew = Processes("shm", parameters, None, False)


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    """Three hosts without a limit of rate."""
    if not available("shm"):
        pytest.skip("the native engine is not built")
    if why := missing():
        pytest.skip(why)
    with Lab(3) as made:
        yield made


@pytest.fixture(scope="session")
def ports() -> Iterator[int]:
    """A port for each world: one that just ended may still hold its own."""
    return iter(range(PORT, 65535))


@pytest.fixture(scope="session")
def host_pools(lab: Lab, ports: Iterator[int]) -> Iterator[HostPools]:
    """host_pools((2, 1)): three ranks on two hosts, kept for the next test that asks."""
    kept: dict[Layout, Pool] = {}

    def get(layout: Layout) -> Pool:
        pool = kept.get(layout)
        if pool is None or not pool.alive:
            pool = kept[layout] = HostPool(lab, layout, next(ports))
        return pool

    yield get
    for pool in kept.values():
        pool.close()
