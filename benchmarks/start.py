"""The start of a job: wall time of all ranks, and CPU time of each, beside ranks that import numpy alone.

    python benchmarks/start.py                       1, 2, 8 and 16 ranks, as a table in Markdown
    python benchmarks/start.py -n 8 --turns 20 --json start.json

Ranks are started by hand, all at once; a rank's program ends after numpy's import, after `ringtree.init()`, or after a
first all_reduce of 8 bytes. Medians over turns. To compare two commits, run it by turns in a worktree of each.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

from ringtree.bench.machine import describe

PROGRAMS = {
    "numpy": "import numpy",
    "init": "import numpy, ringtree; comm = ringtree.init()",
    "first call": "import numpy, ringtree; comm = ringtree.init(); comm.all_reduce(numpy.ones(2, 'float32'))",
}


def job(program: str, ranks: int, name: str) -> tuple[float, float]:
    """(wall, CPU of a rank) in seconds, of a job that ends well."""
    before, began_s = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    env = os.environ | {"RINGTREE_WORLD_SIZE": str(ranks), "RINGTREE_JOB": name}
    command = [sys.executable, "-c", program]
    started = [subprocess.Popen(command, env=env | {"RINGTREE_RANK": str(rank)}) for rank in range(ranks)]
    failed = [rank for rank, process in enumerate(started) if process.wait()]
    wall_s, after = time.perf_counter() - began_s, resource.getrusage(resource.RUSAGE_CHILDREN)
    if failed:
        raise SystemExit(f"start.py: rank {failed[0]} of {ranks} failed")
    return wall_s, (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / ranks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", default="1,2,8,16", metavar="RANKS", help="numbers of ranks (default 1,2,8,16)")
    parser.add_argument("--turns", type=int, default=9, help="jobs of each kind (default 9)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep the seconds, and the machine")
    args = parser.parse_args()
    numbers = [int(n) for n in args.n.split(",")]
    found: dict[tuple[int, str], list[tuple[float, float]]] = {}
    for turn in range(args.turns + 1):
        for ranks in numbers:
            for kind, program in PROGRAMS.items():
                times = job(program, ranks, f"start-{os.getpid()}-{turn}-{kind}")
                if turn:  # the first reads files from disk
                    found.setdefault((ranks, kind), []).append(times)
    print("| ranks | until | wall, ms | beyond numpy | CPU of a rank, ms | beyond numpy |")
    print("| ---: | --- | ---: | ---: | ---: | ---: |")
    for (ranks, kind), times in found.items():
        wall, cpu = (1e3 * median(t[k] for t in times) for k in (0, 1))
        bare_wall, bare_cpu = (1e3 * median(t[k] for t in found[ranks, "numpy"]) for k in (0, 1))
        beyond = ("", "") if kind == "numpy" else (f"{wall - bare_wall:.0f}", f"{cpu - bare_cpu:.0f}")
        print(f"| {ranks} | {kind} | {wall:.0f} | {beyond[0]} | {cpu:.0f} | {beyond[1]} |")
    if args.json:
        rows = [{"ranks": ranks, "until": kind, "seconds": times} for (ranks, kind), times in found.items()]
        args.json.write_text(json.dumps({"machine": describe(), "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
