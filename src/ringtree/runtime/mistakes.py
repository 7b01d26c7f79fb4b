"""A user's mistakes in init(), refused before a rank waits for others."""

from __future__ import annotations

import os
from typing import Any

from ringtree.runtime.bootstrap.environment import MOST_SHOWN, TRACE_FOLDER, World, trace_folder
from ringtree.runtime.engines.engine import in_threads


def check_engine(engine: str | None, world: World) -> None:
    """ValueError: for an engine whose ranks are threads, in a world of several processes."""
    if engine is not None and world.size > 1 and in_threads(engine):
        raise ValueError(
            f"rank {world.rank} of {world.size}: the ranks of engine {engine!r} are threads of one process, and these "
            f"are not; expected engine 'shm', or ringtree.spawn(work, {world.size}, engine={engine!r}, threads=True)"
        )


def check_store(store: Any) -> None:
    """TypeError: for what has not the methods of a store."""
    if not all(callable(getattr(store, name, None)) for name in ("set", "get")):
        raise TypeError(
            f"store is {_shown(store)}; expected an object with set(key, value) and get(key), as torch's stores"
        )


def check_mpi(comm: Any) -> None:
    """TypeError: for what is no communicator. ValueError: for one whose ranks are two groups."""
    if not all(callable(getattr(comm, name, None)) for name in ("Get_rank", "Get_size", "bcast")):
        raise TypeError(f"mpi is {_shown(comm)}; expected mpi4py's communicator of all ranks, as MPI.COMM_WORLD")
    if callable(inter := getattr(comm, "Is_inter", None)) and inter():
        raise ValueError("mpi is an intercommunicator of two groups; expected one of one group, as its Merge() makes")


def check_trace_folder(world: World) -> None:
    """ValueError: where the folder of recordings is not there, or not to be written in."""
    folder = trace_folder()
    if folder and not (os.path.isdir(folder) and os.access(folder, os.W_OK | os.X_OK)):
        raise ValueError(
            f"rank {world.rank} cannot write its recording in {TRACE_FOLDER}={folder}; expected a folder that is "
            "there and that it may write in"
        )


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= MOST_SHOWN else f"a {type(value).__name__}"
