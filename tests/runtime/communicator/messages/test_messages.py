"""Point to point: order, tags, sizes, and batches that cannot block each other."""

from __future__ import annotations

import numpy as np
import pytest
from ml_dtypes import bfloat16

from ringtree.runtime.communicator.communicator import Communicator
from tests.runtime.conftest import Pools


def ping_pong(comm: Communicator) -> None:
    x = np.arange(100.0)
    for count in (0, 1, 100):
        if comm.rank == 0:
            comm.send(x[:count] + 1, 1)
            y = np.empty(count)
            assert comm.recv(y, 1) is y
            assert np.array_equal(y, x[:count] + 2)
        elif comm.rank == 1:
            y = comm.recv(np.empty(count), 0)
            comm.send(y + 1, 0)
    comm.barrier()


def order_and_tags(comm: Communicator) -> None:
    if comm.rank == 0:
        with comm.batch() as batch:
            for i in range(20):
                batch.send(np.array([i]), 1, tag=i % 2)
    elif comm.rank == 1:
        odd = [int(comm.recv(np.zeros(1, np.int64), 0, tag=1)[0]) for _ in range(10)]
        even = [int(comm.recv(np.zeros(1, np.int64), 0, tag=0)[0]) for _ in range(10)]
        assert odd == list(range(1, 20, 2))
        assert even == list(range(0, 20, 2))
    comm.barrier()


def everyone_to_everyone(comm: Communicator) -> None:
    """Far more than fits any buffer, all at once, in an order that would block one after the other."""
    n, me = comm.size, comm.rank
    inbox = np.empty((n, 200_000), np.float32)
    with comm.batch() as batch:
        for peer in range(n):
            batch.send(np.full(200_000, me, np.float32), peer, tag=5)
        for peer in range(n):
            assert batch.recv(inbox[peer], peer, tag=5) is not None
    for peer in range(n):
        assert (inbox[peer] == peer).all()


def kinds(comm: Communicator) -> None:
    peer = comm.size - 1 - comm.rank
    for dtype in (np.int32, np.int64, np.float32, np.float64, bfloat16):
        with comm.batch() as batch:
            batch.send(np.arange(12, dtype=dtype).reshape(3, 4).T, peer)
            y = batch.recv(np.empty((4, 3), dtype), peer)
        assert np.array_equal(y, np.arange(12, dtype=dtype).reshape(3, 4).T)
    if peer != comm.rank:
        with comm.batch() as batch:
            batch.send([1, 2, 3], peer)
            y = batch.recv(np.empty(3, np.int64), peer)
        assert y.tolist() == [1, 2, 3]


def abandoned(comm: Communicator) -> None:
    """A batch whose block raises sends nothing."""
    with pytest.raises(KeyError), comm.batch() as batch:
        batch.send(np.ones(3), (comm.rank + 1) % comm.size)
        raise KeyError
    with comm.batch():
        pass
    comm.barrier()


def among_collectives(comm: Communicator) -> None:
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    for i in range(20):
        x = np.full(50 * i, comm.rank, np.int32)
        with comm.batch() as batch:
            batch.send(x, right, i)
            y = batch.recv(np.empty_like(x), left, i)
        assert (y == left).all()
        assert comm.all_reduce(i) == i * comm.size


ACTS = [ping_pong, order_and_tags, everyone_to_everyone, kinds, abandoned, among_collectives]


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("act", ACTS)
def test_messages(pools: Pools, engine: str, ranks: int, act: object) -> None:
    pools(engine, ranks).run(act)  # type: ignore[arg-type]


def test_a_rank_may_write_to_itself(pools: Pools, engine: str) -> None:
    pools(engine, 1).run(everyone_to_everyone)
