"""One rank of over_hosts.py or beside_peers.py: `PEER OPS SIZES SECONDS [written]`.

Knows nothing of ringtree unless that is the peer. Rank 0 is the root; `nbytes` is the whole vector's, as in nccl-tests.
`written`: a rank writes what it sends before each call, as a program does; the writing is not in the times.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

Call = Callable[[], Any]


class Ringtree:
    def __init__(self) -> None:
        import ringtree

        self.comm = ringtree.init()
        self.rank, self.size = self.comm.rank, self.comm.size

    def call(self, op: str, x: Any, out: Any) -> Call:
        if op == "barrier":
            return self.comm.barrier
        if op == "broadcast":
            return lambda: self.comm.broadcast(x, 0)
        if op in ("reduce", "gather"):
            return lambda: getattr(self.comm, op)(x, root=0, out=None if self.rank else out)
        if op == "scatter":
            return lambda: self.comm.scatter(None if self.rank else x, root=0, out=out)
        return lambda: getattr(self.comm, op)(x, out=out)

    def most(self, value: float) -> float:
        return float(self.comm.all_reduce(np.array([value]), "max")[0])

    def end(self) -> None:
        self.comm.close()


class Gloo:
    def __init__(self) -> None:
        import torch
        import torch.distributed as dist

        torch.set_num_threads(1)
        dist.init_process_group("gloo")
        self.torch, self.dist, self.rank, self.size = torch, dist, dist.get_rank(), dist.get_world_size()

    def call(self, op: str, x: Any, out: Any) -> Call:
        x, out = self.torch.from_numpy(x), self.torch.from_numpy(out)
        return {
            "all_reduce": lambda: self.dist.all_reduce(x),
            "all_gather": lambda: self.dist.all_gather_into_tensor(out, x),
            "reduce_scatter": lambda: self.dist.reduce_scatter_tensor(out, x),
            "broadcast": lambda: self.dist.broadcast(x, 0),
            "all_to_all": lambda: self.dist.all_to_all_single(out, x),
        }[op]

    def most(self, value: float) -> float:
        found = self.torch.tensor([value], dtype=self.torch.float64)
        self.dist.all_reduce(found, self.dist.ReduceOp.MAX)
        return float(found[0])

    def end(self) -> None:
        self.dist.destroy_process_group()


class Mpi:
    def __init__(self) -> None:
        from mpi4py import MPI

        self.mpi, self.comm = MPI, MPI.COMM_WORLD
        self.rank, self.size = self.comm.rank, self.comm.size

    def call(self, op: str, x: Any, out: Any) -> Call:
        return {
            "all_reduce": lambda: self.comm.Allreduce(self.mpi.IN_PLACE, x),
            "all_gather": lambda: self.comm.Allgather(x, out),
            "reduce_scatter": lambda: self.comm.Reduce_scatter_block(x, out),
            "broadcast": lambda: self.comm.Bcast(x, 0),
            "all_to_all": lambda: self.comm.Alltoall(x, out),
            "reduce": lambda: self.comm.Reduce(x if self.rank else self.mpi.IN_PLACE, None if self.rank else x, root=0),
            "gather": lambda: self.comm.Gather(x, None if self.rank else out, 0),
            "scatter": lambda: self.comm.Scatter(None if self.rank else x, out, 0),
            "barrier": self.comm.Barrier,
        }[op]

    def most(self, value: float) -> float:
        return float(self.comm.allreduce(value, self.mpi.MAX))

    def end(self) -> None:
        pass


def arrays(op: str, nbytes: int, size: int) -> tuple[Any, Any]:
    """Input and output: `nbytes` is the whole vector's (of all_to_all, what a rank sends)."""
    count = max(nbytes // 4, 1)
    share = max(count // size, 1)
    if op in ("all_gather", "gather"):
        return np.ones(share, np.float32), np.empty(share * size, np.float32)
    if op in ("reduce_scatter", "scatter"):
        return np.ones(share * size, np.float32), np.empty(share, np.float32)
    if op == "all_to_all":
        return np.ones(share * size, np.float32), np.empty(share * size, np.float32)
    x = np.ones(count, np.float32)
    return x, x


WARM = 15
"""Calls that are not timed: a first one may take a hundred times as long as the ones to come, and ringtree tries two
ways of long calls in the first 13."""


def measured(peer: Any, op: str, nbytes: int, seconds: float, written: bool) -> float:
    """Seconds of a call: the median of several stretches, of the slowest rank each."""
    x, out = arrays(op, nbytes, peer.size)
    call = peer.call(op, x, out)
    call()
    expected = peer.size if op in ("all_reduce", "reduce_scatter", "reduce") else 1
    if peer.rank == 0 or op not in ("reduce", "gather"):
        assert op == "barrier" or (out == expected).all(), f"{op}: {out[:4]}"
    x[:] = 0.0  # sums stay numbers
    once = float("inf")
    for _ in range(WARM):
        began = time.perf_counter()
        call()
        once = min(once, peer.most(time.perf_counter() - began))
    calls = max(int(seconds / 5 / max(once, 1e-6)), 1)
    stretches = []
    for _ in range(5):
        peer.most(0.0)
        took_s = after_writing(call, x, calls) if written else back_to_back(call, calls)
        stretches.append(peer.most(took_s) / calls)
    return sorted(stretches)[2]


def back_to_back(call: Call, calls: int) -> float:
    """Seconds of so many calls, each of which sends the bytes of the one before."""
    began = time.perf_counter()
    for _ in range(calls):
        call()
    return time.perf_counter() - began


def after_writing(call: Call, x: Any, calls: int) -> float:
    """Seconds of so many calls, before each of which `x` is written."""
    took_s = 0.0
    for _ in range(calls):
        x.fill(0.0)
        began = time.perf_counter()
        call()
        took_s += time.perf_counter() - began
    return took_s


def main() -> None:
    name, ops, sizes, seconds, *further = sys.argv[1:]
    peer: Any = {"ringtree": Ringtree, "gloo": Gloo}.get(name, Mpi)()
    for op in ops.split(","):
        for nbytes in map(int, sizes.split(",")):
            found = measured(peer, op, nbytes, float(seconds), further == ["written"])
            if peer.rank == 0:
                print(json.dumps({f"{op} {nbytes}": found}), flush=True)
    peer.end()


if __name__ == "__main__":
    main()
