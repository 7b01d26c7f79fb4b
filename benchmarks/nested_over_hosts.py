"""Collectives over hosts: the choice, nested in the hosts, beside algorithms that know no hosts.

    python -m benchmarks.nested_over_hosts [--op OP] [--rate RATE] [HOST,HOST,... ...]

Hosts are namespaces of this machine (root), each link limited to RATE (2gbit; `none` for no limit); an argument is the
host of each rank. By turns; medians of the time until the last rank is done. Sizes of gather, scatter and all_to_all
are a block's.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from tests.runtime.hosts.lab import Lab

ROOT = Path(__file__).parent.parent
LAYOUTS = ("0,0,0,1", "0,1,0,1", "0,1,1,1,2,2")
TREES, EXCHANGES = ("flat", "binomial"), ("one_shot", "pairwise", "bruck")
UNNESTED = {
    "all_reduce": ("ring", "two_shot", "halving_doubling"),
    "gather": TREES,
    "scatter": TREES,
    "all_to_all": EXCHANGES,
}
VECTORS, BLOCKS = (4 << 10, 1 << 20, 16 << 20), (8, 1 << 10, 16 << 10, 64 << 10)
WARMUP, TURNS = 3, 40


def sizes(op: str) -> tuple[int, ...]:
    return VECTORS if op == "all_reduce" else BLOCKS


def call_of(comm: Any, op: str, nbytes: int) -> Callable[[str | None], None]:
    """A call by an algorithm, whose result is checked."""
    import numpy as np

    rank, ranks = comm.rank, comm.size
    if op == "all_reduce":
        x = np.ones(nbytes // 4, np.float32)

        def call(algorithm: str | None) -> None:
            assert (comm.all_reduce(x, algorithm=algorithm) == ranks).all()

    else:
        whole = np.repeat(np.arange(ranks, dtype=np.uint8), nbytes).reshape(ranks, nbytes)
        mine = np.full(nbytes, rank, np.uint8)

        def call(algorithm: str | None) -> None:
            if op == "gather":
                found = comm.gather(mine, 0, algorithm=algorithm)
                assert rank or (found == whole).all()
            elif op == "scatter":
                assert (
                    comm.scatter(None if rank else whole, 0, out=np.empty_like(mine), algorithm=algorithm) == rank
                ).all()
            else:
                assert (comm.all_to_all(np.tile(mine, (ranks, 1)), algorithm=algorithm) == whole).all()

    return call


def rank(op: str) -> None:
    import numpy as np

    import ringtree

    comm = ringtree.init()
    found: dict[str, float] = {}
    for nbytes in sizes(op):
        times, call = dict[str, list[float]](), call_of(comm, op, nbytes)
        for _ in range(WARMUP + TURNS):
            for algorithm in (None, *UNNESTED[op]):
                comm.barrier()
                began_s = time.perf_counter()
                call(algorithm)
                took_s = time.perf_counter() - began_s
                last_s = comm.all_reduce(np.array([took_s]), "max")[0]
                times.setdefault(f"{nbytes} {algorithm}", []).append(float(last_s))
        found |= {name: median(took[WARMUP:]) for name, took in times.items()}
    if comm.rank == 0:
        print(json.dumps(found), flush=True)
    comm.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("layouts", nargs="*", default=LAYOUTS)
    parser.add_argument("--op", choices=UNNESTED, default="all_reduce")
    parser.add_argument("--rate", default="2gbit")
    given = parser.parse_args()
    names = UNNESTED[given.op]
    print(f"| host of each rank | bytes | chosen, ms | {' | '.join(names)} |")
    print(f"| --- | ---: | ---: |{' ---: |' * len(names)}")
    for port, layout in enumerate(given.layouts, 29120):
        hosts = [int(host) for host in layout.split(",")]
        with Lab(max(hosts) + 1, "" if given.rate == "none" else given.rate) as lab:
            running = [
                subprocess.Popen(
                    [*lab.command(host), sys.executable, "-m", "benchmarks.nested_over_hosts"],
                    stdout=subprocess.PIPE,
                    text=True,
                    cwd=ROOT,
                    env={
                        **os.environ,
                        "NESTED_OVER_HOSTS": given.op,
                        "RINGTREE_RANK": str(r),
                        "RINGTREE_WORLD_SIZE": str(len(hosts)),
                        "RINGTREE_ADDRESS": f"{lab.address(0)}:{port}",
                    },
                )
                for r, host in enumerate(hosts)
            ]
            shown = [process.communicate(timeout=300)[0] for process in running]
        found = json.loads(shown[0])
        for nbytes in sizes(given.op):
            times = " | ".join(f"{found[f'{nbytes} {name}'] * 1e3:.3g}" for name in (None, *names))
            print(f"| {layout} | {nbytes:,} | {times} |", flush=True)


if __name__ == "__main__":
    rank(os.environ["NESTED_OVER_HOSTS"]) if "NESTED_OVER_HOSTS" in os.environ else main()
