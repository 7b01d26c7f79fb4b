"""The cost of a program's first calls: wall and CPU time of each kind, before anything is remembered.

    python benchmarks/first_call.py                    2, 8 and 64 ranks, as a table in Markdown
    python benchmarks/first_call.py -n 2,8 --json first.json

Each sample starts its ranks anew. A call's wall time is the slowest rank's, its CPU time the median rank's; `choose` is
the choice of its algorithm alone, in a process that has imported numpy and ringtree.plan. Medians over samples; on a
busy machine the CPU times vary least. To compare two commits, run it by turns in a worktree of each.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

import numpy as np

import ringtree
from ringtree.bench.machine import describe
from ringtree.runtime.communicator.communicator import Communicator

KINDS = (("all_reduce", 1 << 20), ("all_reduce", 1 << 10), ("broadcast", 1 << 20), ("all_gather", 1 << 14))
"""The first loads what calls need, the second finds its schedules counted, the others are of other collectives."""
CHOOSE = """
import sys, time, numpy
from ringtree.plan import choose
ranks, *kinds = sys.argv[1:]
for kind in kinds:
    collective, nbytes = kind.split(":")
    began_s = time.process_time()
    choose(collective, int(ranks), int(nbytes))
    print(time.process_time() - began_s)
"""


def calls(comm: Communicator) -> list[tuple[float, float]]:
    """(wall, CPU) seconds of each first call on this rank."""
    found = []
    for collective, nbytes in KINDS:
        x = np.ones(nbytes // 4 // (comm.size if collective == "all_gather" else 1), np.float32)
        comm.barrier()
        wall_s, cpu_s = time.perf_counter(), time.process_time()
        getattr(comm, collective)(x)
        found.append((time.perf_counter() - wall_s, time.process_time() - cpu_s))
    return found


def chosen_s(ranks: int) -> list[float]:
    """CPU seconds of each choice, one after the other in a fresh process."""
    kinds = [f"{collective}:{nbytes}" for collective, nbytes in KINDS]
    command = [sys.executable, "-c", CHOOSE, str(ranks), *kinds]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [float(line) for line in done.stdout.split()]


def sample(ranks: int) -> list[dict[str, float]]:
    """One row a kind."""
    by_rank = ringtree.spawn(calls, ranks)
    rows = []
    for mine, choice_s in zip(zip(*by_rank, strict=True), chosen_s(ranks), strict=True):
        wall_s, cpu_s = zip(*mine, strict=True)
        rows.append({"wall_s": max(wall_s), "cpu_s": median(cpu_s), "choose_cpu_s": choice_s})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", "--ranks", default="2,8,64", help="(default 2,8,64)")
    parser.add_argument("--samples", type=int, default=5, help="how often each number of ranks is started (default 5)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures, and the machine's")
    args = parser.parse_args()
    print("| ranks | call | wall (ms) | CPU of a rank (ms) | CPU of the choice (ms) |")
    print("| ---: | --- | ---: | ---: | ---: |")
    rows = []
    for ranks in (int(n) for n in args.ranks.split(",")):
        samples = [sample(ranks) for _ in range(args.samples)]
        for (collective, nbytes), several in zip(KINDS, zip(*samples, strict=True), strict=True):
            row = {key: median(s[key] for s in several) for key in several[0]}
            cells = (ranks, f"{collective}, {nbytes >> 10} KiB", *(f"{1e3 * took_s:.1f}" for took_s in row.values()))
            print(f"| {' | '.join(map(str, cells))} |", flush=True)
            rows.append({"ranks": ranks, "collective": collective, "nbytes": nbytes, **row})
    if args.json:
        args.json.write_text(
            json.dumps({"machine": describe(), "samples": args.samples, "rows": rows}, indent=1) + "\n"
        )


if __name__ == "__main__":
    main()
