"""Worlds of ranks with a process group, kept across tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.torch_backend.world import World

Worlds = Callable[..., World]


@pytest.fixture(scope="session")
def worlds() -> Iterator[Worlds]:
    """worlds(n, backend="ringtree"): n processes, for the next test too; made anew when a failure has ended them."""
    kept: dict[tuple[int, str], World] = {}

    def get(n: int, backend: str = "ringtree") -> World:
        world = kept.get((n, backend))
        if world is None or not world.alive:
            world = kept[n, backend] = World(n, backend)
        return world

    yield get
    for world in kept.values():
        world.close()
