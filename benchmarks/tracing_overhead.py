"""The cost of tracing: all_reduce in and out of a `comm.trace()` block, by turns, at sizes from 8 B to 16 MiB.

    python benchmarks/tracing_overhead.py [-n 2] [--turns 200]

Each turn makes as many calls as take some 1 ms without a recording, then as many with one, back to back; the order
alternates. Shown is the median over turns of the slowest rank's time a call, and of each turn's own ratio.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import numpy as np
from numpy.typing import NDArray

import ringtree

TURN_S = 1e-3


def timed(comm: ringtree.Communicator, call: Callable[[], object], calls: int, on: bool) -> float:
    """Seconds of one call, by the slowest rank."""
    block: AbstractContextManager[object] = comm.trace() if on else nullcontext()
    with block:
        for _ in range(5):
            call()
        comm.barrier()
        started = time.perf_counter()
        for _ in range(calls):
            call()
        seconds = time.perf_counter() - started
    return float(comm.all_reduce(np.array([seconds / calls]), op="max")[0])


def measure(comm: ringtree.Communicator, nbytes: int, turns: int) -> NDArray[np.float64]:
    """[turns, 2]: seconds of a call without and with a recording."""
    x = np.zeros(nbytes // 4, np.float32)
    y = np.empty_like(x)

    def call() -> object:
        return comm.all_reduce(x, out=y)

    calls = int(np.clip(TURN_S / timed(comm, call, 20, False), 5, 5000))
    found = np.empty((turns, 2))
    for turn in range(turns):
        for on in (turn % 2, 1 - turn % 2):
            found[turn, on] = timed(comm, call, calls, bool(on))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", "--ranks", type=int, default=2)
    parser.add_argument("--turns", type=int, default=200)
    args = parser.parse_args()
    print(f"{'bytes':>10}  {'off us':>9}  {'on us':>9}  ratio")
    with ringtree.Pool(args.ranks, pin=True) as pool:
        for nbytes in (8 << power for power in range(0, 22, 3)):
            found = pool.run(measure, nbytes, args.turns)[0]
            off, on = np.median(found, axis=0) * 1e6
            print(f"{nbytes:>10}  {off:>9.3f}  {on:>9.3f}  {np.median(found[:, 1] / found[:, 0]):.3f}")


if __name__ == "__main__":
    main()
