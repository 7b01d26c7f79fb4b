"""A user's mistakes in init(), refused before a rank waits for others."""

from __future__ import annotations

from ringtree.runtime.bootstrap.environment import World
from ringtree.runtime.engines.engine import in_threads


def check_engine(engine: str | None, world: World) -> None:
    """ValueError: for an engine whose ranks are threads, in a world of several processes."""
    if engine is not None and world.size > 1 and in_threads(engine):
        raise ValueError(
            f"rank {world.rank} of {world.size}: the ranks of engine {engine!r} are threads of one process, and these "
            f"are processes; expected engine 'shm', or ringtree.spawn(work, {world.size}, engine={engine!r}, threads=True)"
        )
