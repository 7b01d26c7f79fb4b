"""The time of an all_reduce of arrays from comm.empty, in turns with two algorithms for it, and with private arrays.

    python -m benchmarks.symmetric_sums                  2, 4 and 8 ranks, 4 KiB to 1 MiB of float32, in place
    python -m benchmarks.symmetric_sums -n 2 --json FILE

Every rank is a process of its own, and writes its array just before each call. Shown are medians over turns of the
slowest rank's median call, and the median of each turn's ratio to private arrays. To name an algorithm takes 0.4 us.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import ringtree

BYTES = tuple(1 << k for k in range(12, 21))
TURNS, MOVED_NBYTES, MOST_CALLS = 9, 10_000_000, 200
WAYS: dict[str, dict[str, Any]] = {
    "private": {},
    "chosen": {},
    "one_shot": {"algorithm": "one_shot"},
    "two_shot": {"algorithm": "two_shot"},
}


def measured(comm: ringtree.Communicator) -> list[dict[str, Any]]:
    """The rows of a group."""
    rows = []
    for nbytes in BYTES:
        symmetric, private = comm.empty(nbytes // 4), np.empty(nbytes // 4, np.float32)

        def timed(way: str, calls: int, symmetric: Any = symmetric, private: Any = private) -> float:
            x = private if way == "private" else symmetric
            times_s = []
            for _ in range(calls):
                x[:] = 1
                comm.barrier()
                began_s = time.perf_counter()
                comm.all_reduce(x, out=x, **WAYS[way])
                times_s.append(time.perf_counter() - began_s)
            return float(comm.all_reduce(np.array([median(times_s)]), "max")[0])

        timed("chosen", 5)  # the first call's array decides
        calls = max(min(MOVED_NBYTES // nbytes, MOST_CALLS), 20)
        seen: dict[str, list[float]] = {way: [] for way in WAYS}
        for _ in range(TURNS):
            for way, times in seen.items():
                times.append(timed(way, calls))
        row: dict[str, Any] = {"ranks": comm.size, "bytes": nbytes}
        row["algorithm"] = comm.chosen("all_reduce", nbytes // 4).part.program.name
        row |= {f"{way}_s": median(times) for way, times in seen.items()}
        row["ratio"] = median(a / b for a, b in zip(seen["chosen"], seen["private"], strict=True))
        rows.append(row)
    return rows


def main() -> None:
    """Prints the rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", type=int, nargs="+", default=[2, 4, 8])
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    rows = []
    print(f"| ranks | bytes | {' | '.join(f'{way} us' for way in WAYS)} | chosen | over private |")
    print("| --- " * 8 + "|")
    for n in args.n:
        for row in ringtree.spawn(measured, n)[0]:
            times = " | ".join(f"{row[f'{way}_s'] * 1e6:,.1f}" for way in WAYS)
            print(f"| {n} | {row['bytes']:,} | {times} | {row['algorithm']} | {row['ratio']:.2f} |", flush=True)
            rows.append(row)
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
