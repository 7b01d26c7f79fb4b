"""Messages to all ranks: a sender that runs ahead of slow receivers overwrites nothing that they have to read."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import numpy as np
import pytest

import ringtree
from ringtree.runtime.communicator.communicator import Communicator
from tests.runtime.conftest import Pools

ROUNDS = {"shm": 150, "reference": 30}
"""By engine: a round of reference's takes many times as long."""


def ahead(comm: Communicator, nbytes: int, rounds: int) -> list[int]:
    """The rounds in which this rank got something else than the root sent. Ranks fall behind at different times."""
    wrong = []
    x = np.empty(nbytes, np.uint8)
    for k in range(rounds):
        if comm.rank == 1:
            x[:] = k
        elif k % (10 + 5 * comm.rank) == 0:
            time.sleep(0.002)
        comm.broadcast(x, root=1)
        if not (x == k).all():
            wrong.append(k)
    return wrong


def mixed(comm: Communicator, nbytes: int, rounds: int) -> list[int]:
    """The same with calls between them whose messages go to one rank each."""
    wrong = []
    x, mine = np.empty(nbytes, np.uint8), np.empty(nbytes, np.uint8)
    for k in range(rounds):
        root = k % comm.size
        x[:] = k if comm.rank == root else 255
        comm.broadcast(x, root=root)
        mine[:] = comm.rank
        every = comm.all_gather(mine).reshape(comm.size, -1)
        sums = comm.all_reduce(mine.astype(np.int32))
        turned = comm.all_to_all(every.ravel()).reshape(comm.size, -1)
        right = (x == k).all() and (every == np.arange(comm.size)[:, None]).all() and (turned == comm.rank).all()
        if not (right and (sums == comm.size * (comm.size - 1) // 2).all()):
            wrong.append(k)
    return wrong


# Within a descriptor; in slots; the longest that are multicasts; longer ones.
@pytest.mark.parametrize("nbytes", [8, 224, 256, 2048, 4096, 4160, 40_000])
@pytest.mark.parametrize("work", [ahead, mixed])
def test_nothing_is_overwritten_before_all_have_read_it(
    pools: Pools, engine: str, work: Callable[[Communicator, int, int], list[int]], nbytes: int
) -> None:
    assert pools(engine, 5).run(work, nbytes, ROUNDS[engine]) == [[]] * 5


def left_alone(comm: Communicator, nbytes: int) -> str:
    """What rank 0 hears, whose messages to all have no room any more once a rank has left; and the others."""
    x = np.ones(nbytes, np.uint8)
    comm.barrier()
    if comm.rank == 2:
        comm.close()
        return ""
    try:
        for _ in range(ROUNDS["shm"]):
            comm.broadcast(x)
    except ringtree.PeerDied as error:
        return str(error)
    return "nothing"


@pytest.mark.parametrize("nbytes", [8, 2048])
def test_a_rank_that_has_left_is_missed(nbytes: int) -> None:
    began_s = time.monotonic()
    for rank, heard in enumerate(ringtree.spawn(left_alone, 4, nbytes)):
        left = re.match(r"rank 2 left the group while rank [013] waited for it in broadcast, call \d+", heard)
        assert left or rank == 2, heard
    assert time.monotonic() - began_s < 30
