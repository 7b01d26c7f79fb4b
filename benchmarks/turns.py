"""The turns of ranks that share cores: context switches and time of a call of 8 bytes.

    ringtree run -n 4 benchmarks/turns.py                a row of the table; --calls all_reduce,barrier

Context switches are a rank's own, by getrusage, and the mean over ranks; times are medians of 15 stretches, of the
slowest rank. Least is what no schedule goes below where a call needs all ranks: of m ranks on a core the last to run in
a call is the first in the next, so m - 1 others have to get the core, and each rank (m - 1) / m times.
"""

from __future__ import annotations

import argparse
import os
import resource
import time
from collections.abc import Callable
from statistics import median

import numpy as np

import ringtree

STRETCHES, CALLS = 15, 1000
NAMES = "all_reduce,reduce_scatter,all_gather,all_to_all,barrier,broadcast,reduce,gather,scatter"
NEED_ALL = ("all_reduce", "reduce_scatter", "all_gather", "all_to_all", "barrier")


def calls(comm: ringtree.Communicator) -> dict[str, Callable[[], object]]:
    """Calls with 8 bytes to or from each rank."""
    n, first = comm.size, comm.rank == 0
    x, y = np.ones(2, np.float32), np.empty(2, np.float32)
    every, other = np.ones(2 * n, np.float32), np.empty(2 * n, np.float32)
    return {
        "all_reduce": lambda: comm.all_reduce(x, out=y),
        "reduce_scatter": lambda: comm.reduce_scatter(every, out=y),
        "all_gather": lambda: comm.all_gather(x, out=other),
        "all_to_all": lambda: comm.all_to_all(every, out=other),
        "barrier": comm.barrier,
        "broadcast": lambda: comm.broadcast(x),
        "reduce": lambda: comm.reduce(x, out=y if first else None),
        "gather": lambda: comm.gather(x, out=other if first else None),
        "scatter": lambda: comm.scatter(every if first else None, out=y),
    }


def switches() -> int:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_nvcsw + used.ru_nivcsw


def measured(comm: ringtree.Communicator, call: Callable[[], object]) -> tuple[float, float]:
    """Context switches of a call and rank, and its microseconds."""
    for _ in range(CALLS):
        call()
    before, stretches_us = switches(), []
    for _ in range(STRETCHES):
        began = time.perf_counter()
        for _ in range(CALLS):
            call()
        stretches_us.append((time.perf_counter() - began) / CALLS * 1e6)
    mine = np.array([(switches() - before) / CALLS / STRETCHES])
    slowest = comm.all_reduce(np.array(stretches_us), op="max")
    return float(comm.all_reduce(mine)[0]) / comm.size, median(slowest.tolist())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", default=NAMES)
    given = parser.parse_args()
    with ringtree.init() as comm:
        each = calls(comm)
        a_core = comm.size / min(len(os.sched_getaffinity(0)), comm.size)
        for name in given.calls.split(","):
            count, us = measured(comm, each[name])
            least = f"{(a_core - 1) / a_core:.2f}" if name in NEED_ALL else ""
            if comm.rank == 0:
                print(f"| {comm.size} | {name} | {count:.2f} | {least} | {us:.2f} us |", flush=True)


if __name__ == "__main__":
    main()
