"""The time of an all_reduce that keeps an order of its additions, over that of one that is free, in turns.

    python -m benchmarks.sum_orders                  2 and 4 ranks, 8 bytes to 16 MiB, float32 and bfloat16
    python -m benchmarks.sum_orders -n 2 --json FILE

Every rank is a process of its own. Shown are the medians over turns of the slowest rank's time, and the median of each
turn's own ratio.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from ml_dtypes import bfloat16

import ringtree

BYTES = (8, 4096, 1 << 16, 1 << 20, 1 << 24)
TURNS, TURN_S = 15, 0.01
ORDERS: dict[str, dict[str, Any]] = {
    "free": {},
    "rank_order": {"deterministic": "rank_order"},
    "ranks": {"deterministic": "ranks"},
}


def measured(comm: ringtree.Communicator, dtype: str) -> list[dict[str, Any]]:
    """The rows of a type."""
    kind: Any = bfloat16 if dtype == "bfloat16" else np.float32
    rows = []
    for nbytes in BYTES:
        x = np.zeros(nbytes // np.dtype(kind).itemsize, kind)

        def timed(order: str, many: int, x: Any = x) -> float:
            comm.barrier()
            began_s = time.perf_counter()
            for _ in range(many):
                comm.all_reduce(x, out=x, **ORDERS[order])
            took = np.array([(time.perf_counter() - began_s) / many])
            return float(comm.all_reduce(took, "max")[0])

        for order in ORDERS:
            timed(order, 5)
        many = max(int(TURN_S / timed("free", 3)), 2)
        many = int(comm.all_reduce(np.array([many]), "min")[0])
        seen: dict[str, list[float]] = {order: [] for order in ORDERS}
        for _ in range(TURNS):
            for order, times in seen.items():
                times.append(timed(order, many))
        row: dict[str, Any] = {"ranks": comm.size, "dtype": dtype, "bytes": nbytes}
        row |= {f"{order}_s": median(times) for order, times in seen.items()}
        for order in ("rank_order", "ranks"):
            row[f"{order}_ratio"] = median(a / b for a, b in zip(seen[order], seen["free"], strict=True))
        rows.append(row)
    return rows


def main() -> None:
    """Prints the rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    rows = []
    print("| ranks | type | bytes | free us | rank_order us | ranks us | rank_order | ranks |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for n in args.n:
        for dtype in ("float32", "bfloat16"):
            for row in ringtree.spawn(measured, n, dtype)[0]:
                times = " | ".join(f"{row[f'{order}_s'] * 1e6:,.1f}" for order in ORDERS)
                ratios = f"{row['rank_order_ratio']:.2f} | {row['ranks_ratio']:.2f}"
                print(f"| {n} | {dtype} | {row['bytes']:,} | {times} | {ratios} |", flush=True)
                rows.append(row)
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
