"""Actors that are members of collective groups, and what each does there. Ray reads a cluster's settings when it is
imported, so it is imported in functions.

python -m tests.ray.members ADDRESS NODES: waits for the nodes; prints what the members of a group over them have found,
as JSON.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

SIZE = 3
Made = Callable[[Any], Any]
"""An array of the test's kind, from a numpy array."""


class Member:
    """The actor; without ringtree's backend unless `registers`."""

    def __init__(self, registers: bool = True) -> None:
        import ringtree.ray

        if registers:
            ringtree.ray.register_collective_backend()
            ringtree.ray.register_collective_backend()  # harmless

    def pid(self) -> int:
        return os.getpid()

    def does(self, fn: Callable[..., Any], *args: Any) -> Any:
        return fn(*args)

    def joins(self, rank: int, backend: str, group: str, size: int = SIZE) -> None:
        from ray.util import collective

        collective.init_collective_group(size, rank, backend, group)

    def leaves(self, group: str) -> None:
        from ray.util import collective

        collective.destroy_collective_group(group)


def given(rank: int, dtype: str, shape: tuple[int, ...] = (5,)) -> Any:
    """A rank's array before a call: small numbers, so that every order of a reduction has the same bits."""
    return (np.arange(np.prod(shape)).reshape(shape) % 5 + rank + 1).astype(dtype)


def all_reduce(group: str, made: Made, dtype: str, op: str) -> list[Any]:
    from ray.util import collective

    x = made(given(collective.get_rank(group), dtype))
    collective.allreduce(x, group, by(op))
    return [x]


def reduce(group: str, made: Made, dtype: str, op: str) -> list[Any]:
    from ray.util import collective

    x = made(given(collective.get_rank(group), dtype, (2, 3)))
    collective.reduce(x, 1, group, by(op))
    return [x]


def broadcast(group: str, made: Made, dtype: str, op: str) -> list[Any]:
    from ray.util import collective

    x = made(given(collective.get_rank(group), dtype))
    collective.broadcast(x, 2, group)
    return [x]


def all_gather(group: str, made: Made, dtype: str, op: str) -> list[Any]:
    from ray.util import collective

    x = made(given(collective.get_rank(group), dtype, (2, 3)))
    outs = [made(np.zeros((2, 3), dtype)) for _ in range(SIZE)]
    collective.allgather(outs, x, group)
    return [x, *outs]


def reduce_scatter(group: str, made: Made, dtype: str, op: str) -> list[Any]:
    from ray.util import collective

    rank = collective.get_rank(group)
    out = made(np.zeros((2, 3), dtype))
    collective.reducescatter(out, [made(given(rank + block, dtype, (2, 3))) for block in range(SIZE)], group, by(op))
    return [out]


def messages(group: str, made: Made, dtype: str, op: str) -> list[Any]:
    """From each rank to the next; the last begins by receiving, so that no other is needed to buffer."""
    from ray.util import collective

    rank = collective.get_rank(group)
    x, out = made(given(rank, dtype)), made(np.zeros(5, dtype))
    turns = [
        lambda: collective.send(x, (rank + 1) % SIZE, group),
        lambda: collective.recv(out, (rank - 1) % SIZE, group),
    ]
    for turn in turns if rank < SIZE - 1 else turns[::-1]:
        turn()
    collective.barrier(group)
    return [out]


def by(op: str) -> Any:
    """Ray's operation of that name."""
    from ray.util.collective.types import ReduceOp

    return ReduceOp[op]


UFUNCS: dict[str, Any] = {"SUM": np.add, "PRODUCT": np.multiply, "MIN": np.minimum, "MAX": np.maximum}
"""numpy's function for each operation of Ray's."""


def expected(operation: Callable[..., Any], rank: int, dtype: str, op: str) -> list[Any]:
    """What a rank has after an operation of this file, by numpy alone."""

    def reduced(shape: tuple[int, ...], first: int = 0) -> Any:
        rows = [given(first + source, dtype, shape) for source in range(SIZE)]
        return UFUNCS[op].reduce(rows, axis=0, dtype=dtype)

    if operation is all_reduce:
        return [reduced((5,))]
    if operation is reduce:
        return [reduced((2, 3)) if rank == 1 else given(rank, dtype, (2, 3))]
    if operation is broadcast:
        return [given(2, dtype)]
    if operation is all_gather:
        return [given(source, dtype, (2, 3)) for source in (rank, *range(SIZE))]
    if operation is reduce_scatter:
        return [reduced((2, 3), rank)]
    return [given((rank - 1) % SIZE, dtype)]


def found(operation: Callable[..., Any], group: str, kind: str, dtype: str, op: str) -> list[Any]:
    """What the operation leaves in this member's arrays, as numpy's. `kind`: that of the arrays, array or tensor."""
    if kind == "tensor":
        import torch

        return [x.numpy() for x in operation(group, torch.from_numpy, dtype, op)]
    return list(operation(group, np.array, dtype, op))


def hosts(group: str) -> tuple[list[int], float]:
    """Each rank's host, and a sum over a long array."""
    from ray.util import collective

    member = collective.get_group_handle(group)  # joins the group here, where the driver has declared it
    x = np.full(1 << 18, member.rank + 1.0)
    collective.allreduce(x, group)
    return list(member._comm.hosts), float(x[-1])


def main(address: str, nodes: str) -> None:
    import ray

    from tests.waiting import until

    ray.init(address=address, log_to_driver=False)
    until(lambda: sum(node["Alive"] for node in ray.nodes()) == int(nodes))
    actor = ray.remote(Member).options(num_cpus=1, scheduling_strategy="SPREAD")
    members = [actor.remote() for _ in range(SIZE)]
    ray.get([member.joins.remote(rank, "ringtree", "over hosts") for rank, member in enumerate(members)])
    print(json.dumps(ray.get([member.does.remote(hosts, "over hosts") for member in members])), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
