"""Worlds of ranks with a process group, kept across tests."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence

import pytest

from tests.runtime.hosts.conftest import Layout, host_of, made_lab
from tests.runtime.hosts.lab import Lab
from tests.torch_backend import faults
from tests.torch_backend.world import World

Worlds = Callable[..., World]
OVER_HOSTS = {"GLOO_SOCKET_IFNAME": "eth0"}
"""The variables of ranks on hosts of a lab: Gloo looks for the host's name otherwise, which is in no table there."""


def kept(
    variables: Mapping[str, str] | None = None, places: Callable[[int], Sequence[list[str]]] = lambda n: ()
) -> Iterator[Worlds]:
    """worlds(n, backend="ringtree"): n processes, for the next test too; made anew when a failure has ended them.
    `places`: the namespaces of each of n ranks' hosts."""
    made: dict[tuple[int, str], World] = {}

    def get(n: int, backend: str = "ringtree") -> World:
        world = made.get((n, backend))
        if world is None or not world.alive:
            world = made[n, backend] = World(n, backend, variables=variables, namespaces=places(n))
        return world

    yield get
    for world in made.values():
        world.close()


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """What one process comes to is computed beside ranks: threads without a core each would wait for one another."""
    import torch

    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    """Three hosts, for all tests that leave them as they are."""
    yield from made_lab()


@pytest.fixture(scope="session", autouse=True)
def hosts_of_all_tests(request: pytest.FixtureRequest) -> None:
    """With RINGTREE_TEST_HOSTS=2 the ranks of `worlds` and of `faults.run` are spread over two hosts, in order."""
    hosts = int(os.environ.get("RINGTREE_TEST_HOSTS", "1"))
    if hosts > 1:
        lab: Lab = request.getfixturevalue("lab")
        faults.places = lambda n: [lab.namespaces(rank * hosts // n) for rank in range(n)]


@pytest.fixture(scope="session")
def worlds() -> Iterator[Worlds]:
    yield from kept(OVER_HOSTS, faults.places) if faults.places else kept()


@pytest.fixture(scope="session")
def worlds_over_hosts(lab: Lab) -> Iterator[Worlds]:
    """worlds_over_hosts((2, 1)): as `worlds`, three ranks on two hosts."""
    made: dict[Layout, Iterator[Worlds]] = {}
    getters: dict[Layout, Worlds] = {}

    def get(layout: Layout, backend: str = "ringtree") -> World:
        if layout not in made:
            made[layout] = kept(OVER_HOSTS, lambda n: [lab.namespaces(host) for host in host_of(layout)])
            getters[layout] = next(made[layout])
        return getters[layout](sum(layout), backend)

    yield get
    for worlds in made.values():
        next(worlds, None)
