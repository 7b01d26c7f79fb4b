"""Worlds of ranks with a process group, kept across tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pytest

from tests.torch_backend.world import World

Worlds = Callable[..., World]


def kept(variables: Mapping[str, str] | None = None) -> Iterator[Worlds]:
    """worlds(n, backend="ringtree"): n processes, for the next test too; made anew when a failure has ended them."""
    made: dict[tuple[int, str], World] = {}

    def get(n: int, backend: str = "ringtree") -> World:
        world = made.get((n, backend))
        if world is None or not world.alive:
            world = made[n, backend] = World(n, backend, variables=variables)
        return world

    yield get
    for world in made.values():
        world.close()


@pytest.fixture(scope="session")
def worlds() -> Iterator[Worlds]:
    yield from kept()
