"""Messages of a call that share a staging slot: a root runs ahead of ranks that come late, and overwrites nothing."""

from __future__ import annotations

import time

import numpy as np
import pytest

import ringtree
from ringtree.runtime.communicator.communicator import Communicator
from tests.runtime.conftest import Pools

RANKS = 6
AHEAD = 4
"""Calls of 5 messages: more messages than a rank has slots."""
ROUNDS = {"shm": 60, "reference": 15}
"""By engine: a round of reference's takes many times as long."""


def ahead(comm: Communicator, nbytes: int) -> list[int]:
    """The calls in which this rank got something else than the root sent; none begins before the root has sent all."""
    mine, wrong = np.empty(nbytes, np.uint8), []
    for number in range(AHEAD):
        if comm.rank == 0:
            comm.scatter(np.full(nbytes * comm.size, number, np.uint8), out=mine)
    if comm.rank == 0:
        for peer in range(1, comm.size):
            comm.send(np.zeros(1), peer)
        return []
    comm.recv(np.empty(1), 0)
    for number in range(AHEAD):
        comm.scatter(None, out=mine)
        if not (mine == number).all():
            wrong.append(number)
    return wrong


@pytest.mark.parametrize("nbytes", [256, 2048])
def test_a_scatter_needs_one_slot(nbytes: int) -> None:
    assert ringtree.spawn(ahead, RANKS, nbytes, timeout_s=10) == [[]] * RANKS


def mixed(comm: Communicator, nbytes: int, rounds: int) -> list[int]:
    """The rounds with a wrong result; ranks fall behind at different times."""
    wrong = []
    for k in range(rounds):
        root = k % comm.size
        x = (np.arange(comm.size * nbytes) + k).astype(np.uint8)
        block = slice(comm.rank * nbytes, (comm.rank + 1) * nbytes)
        if k % (7 + 3 * comm.rank) == 0:
            time.sleep(0.001)
        scattered = comm.scatter(x if comm.rank == root else None, out=np.empty(nbytes, np.uint8), root=root)
        turned = comm.all_to_all(np.repeat(np.arange(comm.size) + k, nbytes).astype(np.uint8))
        sums = comm.reduce_scatter(x)
        right = (scattered == x[block]).all() and (turned == (comm.rank + k) % 256).all()
        if not (right and (sums == (x[block].astype(int) * comm.size).astype(np.uint8)).all()):
            wrong.append(k)
    return wrong


# All messages of a call in one slot; some; one in each.
@pytest.mark.parametrize("nbytes", [256, 4160, 50_000, 100_000])
def test_nothing_is_overwritten_before_it_is_read(pools: Pools, engine: str, nbytes: int) -> None:
    assert pools(engine, RANKS).run(mixed, nbytes, ROUNDS[engine]) == [[]] * RANKS
