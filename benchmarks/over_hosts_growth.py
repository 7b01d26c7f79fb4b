"""What ranks on several hosts cost as their number grows: time to set up, memory, connections (root; see over_hosts).

    python -m benchmarks.over_hosts_growth [HOSTSxRANKS ...]

Of the rank with the most: seconds of init(), resident MiB over those before it, TCP connections after init(), after a
barrier and a long all_reduce, and after an all_to_all. Seconds are of ranks that all share this machine's cores.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from tests.runtime.hosts.lab import Lab

ROOT = Path(__file__).parent.parent
WORLDS = ("2x1", "2x2", "4x2", "4x4", "8x4", "8x8")


def resident_MiB() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") / 2**20


def connections() -> int:
    """Of this process: its sockets that the kernel's table has as established."""
    own = {os.readlink(link) for link in Path("/proc/self/fd").iterdir() if os.path.islink(link)}
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(row[3] == "01" and f"socket:[{row[9]}]" in own for row in rows)


def rank() -> None:
    import numpy as np

    import ringtree

    before = resident_MiB()
    began = time.perf_counter()
    comm = ringtree.init()
    row = [time.perf_counter() - began, resident_MiB() - before, connections()]
    comm.barrier()
    comm.all_reduce(np.ones(1 << 18, np.float32))
    row += [connections()]
    comm.all_to_all(np.ones(comm.size * 100, np.float32), algorithm="pairwise")
    row += [connections(), resident_MiB() - before]
    most = comm.all_reduce(np.array(row, np.float64), "max")
    if comm.rank == 0:
        print(json.dumps(most.tolist()), flush=True)
    comm.close()


def main() -> None:
    print("ranks  init s  MiB then  connections: init, all_reduce, all_to_all  MiB at the end")
    for world in sys.argv[1:] or WORLDS:
        hosts, ranks = map(int, world.split("x"))
        with Lab(hosts) as lab:
            running = [
                subprocess.Popen(
                    [*lab.command(r // ranks), sys.executable, "-m", "benchmarks.over_hosts_growth", "rank"],
                    stdout=subprocess.PIPE,
                    text=True,
                    cwd=ROOT,
                    env={
                        **os.environ,
                        "RINGTREE_RANK": str(r),
                        "RINGTREE_WORLD_SIZE": str(hosts * ranks),
                        "RINGTREE_ADDRESS": f"{lab.address(0)}:29113",
                    },
                )
                for r in range(hosts * ranks)
            ]
            shown = [process.communicate(timeout=300)[0] for process in running]
        init_s, init_MiB, *counts, end_MiB = json.loads(shown[0])
        in_words = ", ".join(f"{count:.0f}" for count in counts)
        print(f"{world:>5}  {init_s:6.2f}  {init_MiB:8.1f}  {in_words:>40}  {end_MiB:14.1f}", flush=True)


if __name__ == "__main__":
    rank() if sys.argv[1:] == ["rank"] else main()
