"""The way into a call of torch.distributed: 8 bytes on one rank, where nothing is left to send.

    python benchmarks/way_in.py                     as a table in Markdown; --turns, --json FILE

Beside ringtree two backends that do nothing: torch's own "fake", in C++, and a group written in Python. Each turn
starts each of them anew and takes the quickest of 7 stretches of 20,000 calls; the table has medians over turns.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from timeit import repeat
from typing import Any

CALLS, STRETCHES = 20_000, 7
BACKENDS = {
    "fake": "torch's backend that does nothing",
    "bare": "a group in Python that does nothing",
    "ringtree": "ringtree",
    "gloo": "Gloo",
    "numpy": "ringtree, from numpy",
}


def bare(dist: Any) -> None:
    """Registers a group that returns finished works."""

    class Work(dist.Work):  # type: ignore[misc]
        def wait(self, timeout: object = None) -> bool:
            return True

    class Group(dist.ProcessGroup):  # type: ignore[misc]
        def __init__(self, *given: object) -> None:
            super().__init__(0, 1)

        def allreduce(self, tensors: object, options: object = None) -> Work:
            return Work()

        def getBackendName(self) -> str:
            return "bare"

    dist.Backend.register_backend("bare", Group, devices=["cpu"])


def measure(backend: str) -> list[float]:
    """Microseconds of a call, and of an asynchronous call and its wait."""
    if backend == "numpy":
        return from_numpy()
    import torch
    import torch.distributed as dist

    store = dist.HashStore()
    if backend == "fake":
        from torch.testing._internal.distributed.fake_pg import FakeStore

        store = FakeStore()
    if backend == "bare":
        bare(dist)
    dist.init_process_group(backend, store=store, rank=0, world_size=1)
    x = torch.ones(2)
    found = [quickest_us(lambda: dist.all_reduce(x)), quickest_us(lambda: dist.all_reduce(x, async_op=True).wait())]
    dist.destroy_process_group()
    return found


def from_numpy() -> list[float]:
    """As `measure`, for a communicator's own calls on arrays."""
    import numpy as np

    import ringtree

    comm, x = ringtree.init(), np.ones(2, np.float32)
    begun = quickest_us(lambda: comm.all_reduce(x, out=x, async_op=True).wait())
    return [quickest_us(lambda: comm.all_reduce(x, out=x)), begun]


def quickest_us(call: Callable[[], object]) -> float:
    """Microseconds of a call in the quickest stretch."""
    for _ in range(100):
        call()
    return min(repeat(call, number=CALLS, repeat=STRETCHES)) / CALLS * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--backend", choices=BACKENDS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.backend:
        print(json.dumps(measure(args.backend)))
        return
    found: dict[str, list[list[float]]] = {backend: [] for backend in BACKENDS}
    env = os.environ | {"RINGTREE_WORLD_SIZE": "1", "RINGTREE_RANK": "0"}
    for _ in range(args.turns):
        for backend, rows in found.items():
            command = [sys.executable, __file__, "--backend", backend]
            rows.append(json.loads(subprocess.run(command, env=env, capture_output=True, check=True).stdout))
    floor = [median(row[k] for row in found["fake"]) for k in (0, 1)]
    print("| backend | all_reduce, us | of fake | async_op and wait, us | of fake |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for backend, rows in found.items():
        call, begun = (median(row[k] for row in rows) for k in (0, 1))
        print(f"| {BACKENDS[backend]} | {call:.1f} | {call / floor[0]:.1f} | {begun:.1f} | {begun / floor[1]:.1f} |")
    if args.json:
        args.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
