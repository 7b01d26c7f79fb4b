"""How much shared memory a group takes: when it is made, and after calls of several kinds.

    python benchmarks/state_memory.py [ranks ...]

MiB that exist behind all ranks' memfds, by fstat; staging slots are 1 MiB a rank of it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np

import ringtree


def pass_on(comm: ringtree.Communicator) -> None:
    with comm.batch() as batch:
        batch.send(np.ones(100_000), (comm.rank + 1) % comm.size)
        batch.recv(np.empty(100_000), (comm.rank - 1) % comm.size)


CALLS = {
    "made": lambda comm: None,
    "+ barrier": lambda comm: comm.barrier(),
    "+ ring all_reduce": lambda comm: comm.all_reduce(np.ones(1000, np.float32), algorithm="ring"),
    "+ double_tree broadcast": lambda comm: comm.broadcast(np.ones(1000, np.float32), 0, algorithm="double_tree"),
    "+ messages round a ring": pass_on,
    "+ all_to_all": lambda comm: comm.all_to_all(np.ones(comm.size, np.float32), algorithm="pairwise"),
}


def allocated_MiB() -> float:
    nodes = {}
    for link in Path("/proc/self/fd").iterdir():
        try:
            if "memfd:ringtree" in os.readlink(link):
                found = os.stat(link)
                nodes[found.st_ino] = found.st_blocks * 512
        except OSError:
            continue
    return sum(nodes.values()) / 2**20


def work(comm: ringtree.Communicator) -> list[float]:
    seen = []
    for name, call in CALLS.items():
        call(comm)
        if name != "made":
            comm.barrier()
        seen.append(allocated_MiB() if comm.rank == 0 else 0.0)
        comm.barrier()
    return seen


def main() -> None:
    sizes = [int(n) for n in sys.argv[1:]] or [8, 64, 256]
    print(f"{'MiB of shared memory, all ranks':<32}" + "".join(f"{n:>6} ranks" for n in sizes))
    columns = [ringtree.spawn(work, n, timeout_s=600)[0] for n in sizes]
    for name, row in zip(CALLS, zip(*columns, strict=True), strict=True):
        print(f"{name:<32}" + "".join(f"{MiB:>12.1f}" for MiB in row))


if __name__ == "__main__":
    main()
