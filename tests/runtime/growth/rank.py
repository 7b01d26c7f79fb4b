"""The campaign on one rank, under `ringtree run`: what it holds after each tenth of a part, as a line of JSON."""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np

import ringtree
from ringtree.runtime.communicator.communicator import Communicator
from tests.runtime.soak.figures import Figures, figures

LOOKS = 10
"""At what a rank holds, in each part."""
SHORTEST, LONGEST = 1, 40_000
"""Elements of a call: no two of a collective have the same number, up to so many; then another type has."""
DTYPES = ("float32", "float64", "int32", "int64")


def sizes(comm: Communicator, calls: int, look: Callable[[], None]) -> None:
    """Calls of which none has the size of another of its collective and type."""
    x = {dtype: np.ones(LONGEST * comm.size, dtype) for dtype in DTYPES}
    collectives: list[Callable[[Any, int], Any]] = [
        lambda x, n: comm.all_reduce(x[:n]),
        lambda x, n: comm.broadcast(x[:n], n % comm.size),
        lambda x, n: comm.all_gather(x[:n]),
        lambda x, n: comm.reduce_scatter(x[: n * comm.size]),
        lambda x, n: comm.reduce(x[:n], root=n % comm.size),
        lambda x, n: comm.all_to_all(x[: n * comm.size]),
    ]
    for number in range(calls):
        turn, which = divmod(number, len(collectives))
        wrap, size = divmod(turn, LONGEST)
        collectives[which](x[DTYPES[wrap % len(DTYPES)]], SHORTEST + size)
        if (number + 1) * LOOKS % calls < LOOKS:
            look()


def groups(comm: Communicator, made: int, look: Callable[[], None]) -> None:
    """Groups that are made, used and closed, one in eight of them left to the garbage collector."""
    for number in range(made):
        group = comm.duplicate() if number % 2 else comm.split(0, -comm.rank)
        assert group is not None and group.all_reduce(1.0) == comm.size
        if number % 8:
            group.close()
        del group
        if (number + 1) * LOOKS % made < LOOKS:
            look()


def worlds(comm: Communicator, made: int, look: Callable[[], None]) -> None:
    """Worlds that are initialized, used and closed."""
    for number in range(made):
        with ringtree.init() as world:
            assert world.all_reduce(1.0) == comm.size
        if (number + 1) * LOOKS % made < LOOKS:
            look()


PARTS: dict[str, Callable[[Communicator, int, Callable[[], None]], None]] = {
    "sizes": sizes,
    "groups": groups,
    "worlds": worlds,
}


def play(comm: Communicator, part: str, number: int) -> list[dict[str, int]]:
    """What this rank held after each tenth of a part."""
    held: list[Figures] = []

    def look() -> None:
        gc.collect()
        held.append(figures([comm]))

    PARTS[part](comm, number, look)
    return [asdict(each) for each in held]


def main(parts: list[tuple[str, int]]) -> None:
    """Plays the parts; rank 0 prints, as a line of JSON, what each rank held."""
    comm = ringtree.init()
    for name, number in parts:
        all_held = comm.gather_object(play(comm, name, number))
        if comm.rank == 0:
            print(json.dumps({"part": name, "number": number, "by_rank": all_held}), flush=True)


if __name__ == "__main__":
    words = iter(sys.argv[1:])
    main([(name, int(number)) for name, number in zip(words, words, strict=False)])
