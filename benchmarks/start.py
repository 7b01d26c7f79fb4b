"""The start of a job: wall time until all ranks are there, and CPU time of each, beside ranks that import numpy alone.

    python benchmarks/start.py                       1, 2, 8 and 16 ranks, as a table in Markdown
    python benchmarks/start.py -n 8 --turns 20 --json start.json
    python benchmarks/start.py --tree before --tree now      two versions by turns, each installed in a folder

Ranks are started by hand, all at once. Each stops its clocks after numpy's import, after `ringtree.init()`, or after a
first all_reduce of 8 bytes. Medians over turns. Modules are read as Python has compiled them, as those of an installed
package are, and numpy's BLAS has one thread: its threads may take as long to start as all else here.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

import numpy as np

from ringtree.bench.machine import describe

PROGRAMS = {
    "numpy": "import numpy",
    "init": "import numpy, ringtree; comm = ringtree.init()",
    "first call": "import numpy, ringtree; comm = ringtree.init(); comm.all_reduce(numpy.ones(2, 'float32'))",
}
CLOCKS = "; import time; print(time.monotonic(), time.process_time())"
HERE = "this environment"

Seconds = tuple[float, float]
"""Wall time until the last rank was there, and a rank's CPU time."""


def job(program: str, ranks: int, name: str, tree: str) -> Seconds:
    """The seconds of a job that ends well. `tree`: the folder with ringtree; its ranks start without site's."""
    env = os.environ | {"RINGTREE_WORLD_SIZE": str(ranks), "RINGTREE_JOB": name, "OPENBLAS_NUM_THREADS": "1"}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-c", program + CLOCKS]
    if tree != HERE:
        env["PYTHONPATH"] = f"{Path(tree).resolve()}:{Path(np.__file__).parent.parent}"
        command.insert(1, "-S")  # else an editable installation goes first
    began_s = time.monotonic()
    started = [
        subprocess.Popen(command, env=env | {"RINGTREE_RANK": str(rank)}, stdout=subprocess.PIPE, text=True)
        for rank in range(ranks)
    ]
    printed = [process.communicate()[0] for process in started]
    if failed := [rank for rank, process in enumerate(started) if process.returncode]:
        raise SystemExit(f"start.py: rank {failed[0]} of {ranks} failed")
    there = [tuple(map(float, line.split())) for line in printed]
    return max(end_s for end_s, _ in there) - began_s, sum(cpu_s for _, cpu_s in there) / ranks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", default="1,2,8,16", metavar="RANKS", help="numbers of ranks (default 1,2,8,16)")
    parser.add_argument("--turns", type=int, default=9, help="jobs of each kind (default 9)")
    parser.add_argument("--tree", action="append", metavar="FOLDER", help="a folder with ringtree; may be repeated")
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep the seconds, and the machine")
    args = parser.parse_args()
    found: dict[tuple[int, str, str], list[Seconds]] = {}
    for turn in range(args.turns + 1):
        for ranks in map(int, args.n.split(",")):
            for kind, program in PROGRAMS.items():
                for number, tree in enumerate(args.tree or [HERE]):
                    times = job(program, ranks, f"start-{os.getpid()}-{turn}-{kind}-{number}", tree)
                    if turn:  # the first reads files from disk, and compiles modules
                        found.setdefault((ranks, kind, tree), []).append(times)
    print("| ringtree of | ranks | until | wall, ms | beyond numpy | CPU of a rank, ms | beyond numpy |")
    print("| --- | ---: | --- | ---: | ---: | ---: | ---: |")
    for (ranks, kind, tree), times in found.items():
        wall, cpu = (1e3 * median(t[k] for t in times) for k in (0, 1))
        bare_wall, bare_cpu = (1e3 * median(t[k] for t in found[ranks, "numpy", tree]) for k in (0, 1))
        beyond = ("", "") if kind == "numpy" else (f"{wall - bare_wall:.0f}", f"{cpu - bare_cpu:.1f}")
        print(f"| {tree} | {ranks} | {kind} | {wall:.0f} | {beyond[0]} | {cpu:.0f} | {beyond[1]} |")
    if args.json:
        rows = [{"ranks": n, "until": kind, "tree": tree, "seconds": at} for (n, kind, tree), at in found.items()]
        args.json.write_text(json.dumps({"machine": describe(), "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
