"""all_reduce over hosts of unequal ranks, or ranks in another order: the choice beside algorithms that know no hosts.

    python -m benchmarks.over_unequal_hosts [HOST,HOST,... ...]

Hosts are namespaces of this machine (root), each link limited to 2 Gbit/s; an argument is the host of each rank. By
turns; medians of the time until the last rank is done.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

from tests.runtime.hosts.lab import Lab

ROOT = Path(__file__).parent.parent
LAYOUTS = ("0,0,0,1", "0,1,0,1", "0,1,1,1,2,2")
RATE = "2gbit"
ALGORITHMS = (None, "ring", "two_shot", "halving_doubling")
SIZES = (4 << 10, 1 << 20, 16 << 20)
WARMUP, TURNS = 2, 9


def rank() -> None:
    import numpy as np

    import ringtree

    comm = ringtree.init()
    found: dict[str, float] = {}
    for nbytes in SIZES:
        x, times = np.ones(nbytes // 4, np.float32), dict[str, list[float]]()
        for _ in range(WARMUP + TURNS):
            for algorithm in ALGORITHMS:
                comm.barrier()
                began_s = time.perf_counter()
                out = comm.all_reduce(x, algorithm=algorithm)
                took_s = time.perf_counter() - began_s
                assert (out == comm.size).all()
                last_s = comm.all_reduce(np.array([took_s]), "max")[0]
                times.setdefault(f"{nbytes} {algorithm}", []).append(float(last_s))
        found |= {name: median(took[WARMUP:]) for name, took in times.items()}
    if comm.rank == 0:
        print(json.dumps(found), flush=True)
    comm.close()


def main() -> None:
    print("| host of each rank | bytes | chosen, ms | ring | two_shot | halving_doubling |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for port, layout in enumerate(sys.argv[1:] or LAYOUTS, 29120):
        hosts = [int(host) for host in layout.split(",")]
        with Lab(max(hosts) + 1, RATE) as lab:
            running = [
                subprocess.Popen(
                    [*lab.command(host), sys.executable, "-m", "benchmarks.over_unequal_hosts", "rank"],
                    stdout=subprocess.PIPE,
                    text=True,
                    cwd=ROOT,
                    env={
                        **os.environ,
                        "RINGTREE_RANK": str(r),
                        "RINGTREE_WORLD_SIZE": str(len(hosts)),
                        "RINGTREE_ADDRESS": f"{lab.address(0)}:{port}",
                    },
                )
                for r, host in enumerate(hosts)
            ]
            shown = [process.communicate(timeout=300)[0] for process in running]
        found = json.loads(shown[0])
        for nbytes in SIZES:
            times = " | ".join(f"{found[f'{nbytes} {algorithm}'] * 1e3:.3g}" for algorithm in ALGORITHMS)
            print(f"| {layout} | {nbytes >> 10} KiB | {times} |", flush=True)


if __name__ == "__main__":
    rank() if sys.argv[1:] == ["rank"] else main()
