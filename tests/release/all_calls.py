"""Two ranks use each way by which they reach each other's memory and processes; every answer is compared."""

from __future__ import annotations

import os

import numpy as np

import ringtree


def work(comm: ringtree.Communicator) -> int:
    rank, other = comm.rank, 1 - comm.rank
    for count in (1, 1000, 300_000):  # inline, through a slot, long
        assert (comm.all_reduce(np.full(count, rank + 1, np.float32)) == 3).all()
    window = comm.empty(1 << 18)
    window[:] = rank + 1
    assert (comm.all_reduce(window) == 3).all()  # zero-copy
    comm.barrier()
    comm.put(np.full(1 << 18, rank + 5, np.float32), other, window, signal=0)
    comm.wait_signal(other)
    assert (window == other + 5).all()
    got = np.empty(300_000)
    receiving = comm.irecv(got, other)
    comm.send(np.full(300_000, float(rank)), other)
    receiving.wait()
    assert (got == other).all()
    half = comm.split(rank)
    assert half is not None and half.size == 1
    assert comm.all_gather_object({"rank": rank}) == [{"rank": 0}, {"rank": 1}]
    comm.barrier()
    return rank


def program() -> None:
    """A rank of `ringtree run`."""
    comm = ringtree.init()
    work(comm)
    print(f"rank {comm.rank} has all")


if __name__ == "__main__":
    if "RINGTREE_RANK" in os.environ:
        program()
    else:
        assert ringtree.spawn(work, 2) == [0, 1]
        print("spawned ranks have all")
