"""The time of an all_reduce of arrays from comm.empty, in turns with two algorithms for it, and with private arrays.

    python -m benchmarks.symmetric_sums                  2, 4 and 8 ranks, 4 KiB to 1 MiB of float32, in place
    python -m benchmarks.symmetric_sums -n 2 --json FILE

Every rank is a process of its own, and writes its array just before each call. Shown are medians over turns of the
slowest rank's median call, and the median of each turn's ratio to private arrays, which ranks of their own sum, for
their first sum decides. To name an algorithm takes 0.4 us.
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


def measured(comm: ringtree.Communicator, private: bool) -> list[dict[str, Any]]:
    """For each size the algorithm that the first call has decided on, and seconds by way: of private arrays, or of
    symmetric ones."""
    found = []
    for nbytes in BYTES:
        x: Any = np.empty(nbytes // 4, np.float32) if private else comm.empty(nbytes // 4)

        def timed(way: str, calls: int, x: Any = x) -> float:
            times_s = []
            for _ in range(calls):
                x[:] = 1
                comm.barrier()
                began_s = time.perf_counter()
                comm.all_reduce(x, out=x, **WAYS[way])
                times_s.append(time.perf_counter() - began_s)
            return float(comm.all_reduce(np.array([median(times_s)]), "max")[0])

        calls = max(min(MOVED_NBYTES // nbytes, MOST_CALLS), 20)
        ways = [way for way in WAYS if (way == "private") == private]
        for way in ways:
            timed(way, 5)
        row: dict[str, Any] = {way: timed(way, calls) for way in ways}
        found.append(row | {"algorithm": comm.chosen("all_reduce", nbytes // 4).part.program.name})
    return found


def rows(ranks: int) -> list[dict[str, Any]]:
    """The rows of so many ranks, by turns of worlds with private arrays and with symmetric ones."""
    worlds = [[ringtree.spawn(measured, ranks, private)[0] for private in (True, False)] for _ in range(TURNS)]
    found = []
    for k, nbytes in enumerate(BYTES):
        turns = [private[k] | symmetric[k] for private, symmetric in worlds]
        row: dict[str, Any] = {"ranks": ranks, "bytes": nbytes, "algorithm": turns[0]["algorithm"]}
        row |= {f"{way}_s": median(turn[way] for turn in turns) for way in WAYS}
        found.append(row | {"ratio": median(turn["chosen"] / turn["private"] for turn in turns)})
    return found


def main() -> None:
    """Prints the rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", type=int, nargs="+", default=[2, 4, 8])
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    all_rows = []
    print(f"| ranks | bytes | {' | '.join(f'{way} us' for way in WAYS)} | chosen | over private |")
    print("| --- " * 8 + "|")
    for n in args.n:
        for row in rows(n):
            times = " | ".join(f"{row[f'{way}_s'] * 1e6:,.1f}" for way in WAYS)
            print(f"| {n} | {row['bytes']:,} | {times} | {row['algorithm']} | {row['ratio']:.2f} |", flush=True)
            all_rows.append(row)
    if args.json:
        args.json.write_text(json.dumps(all_rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
