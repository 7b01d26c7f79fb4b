"""The rate at which bytes of bfloat16 and float16 are added up, over that of float32; where .venv has torch.

    python -m benchmarks.sums_by_type                  2 ranks, 64 KiB to 64 MiB
    python -m benchmarks.sums_by_type -n 2 --json FILE

Each rank adds a tensor of each type in place by `dist.all_reduce`, the three in turns of some 20 ms; shown are medians
over turns, of the slowest rank, and the median of each turn's own ratio.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.beside_private_shm import DTYPES, free_port, size
from benchmarks.torch_beside_gloo import TURN_S, timed

BYTES = tuple(1 << k for k in range(16, 27))
TURNS = 11


def rank_main(rank: int, ranks: int, port: int, results: Any) -> None:
    """One rank's part of all rows; rank 0's results."""
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[rank % len(os.sched_getaffinity(0))]})
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("ringtree", rank=rank, world_size=ranks)
    meeting = dist.new_group(backend="gloo")
    for nbytes in BYTES:
        calls = {}
        for name in DTYPES:
            dtype = getattr(torch, name)
            calls[name] = partial(dist.all_reduce, torch.zeros(nbytes // dtype.itemsize, dtype=dtype))
        for call in calls.values():
            timed(call, 10, meeting)  # the first of a kind are planned
        many = max(2, min(int(TURN_S / timed(calls["float32"], 3, meeting)), 1000))
        seen: dict[str, list[float]] = {name: [] for name in calls}
        for _ in range(TURNS):
            for name, call in calls.items():
                seen[name].append(timed(call, many, meeting))
        row: dict[str, Any] = {"ranks": ranks, "bytes": nbytes}
        row |= {f"{name}_s": median(times) for name, times in seen.items()}
        for name in ("bfloat16", "float16"):
            row[f"{name}_rate"] = median(b / a for a, b in zip(seen[name], seen["float32"], strict=True))
        if rank == 0:
            results.put(row)
    dist.barrier()
    dist.destroy_process_group()


def run(ranks: int) -> list[dict[str, Any]]:
    """The rows, shown as they come."""
    context = multiprocessing.get_context("spawn")
    results, port = context.Queue(), free_port()
    processes = [context.Process(target=rank_main, args=(rank, ranks, port, results)) for rank in range(ranks)]
    for process in processes:
        process.start()
    rows = []
    for _ in BYTES:
        rows.append(row := results.get(timeout=300))
        times = " | ".join(f"{row[f'{name}_s'] * 1e6:,.1f}" for name in DTYPES)
        print(
            f"| {size(row['bytes'])} | {times} | {row['bfloat16_rate']:.2f} | {row['float16_rate']:.2f} |", flush=True
        )
    for process in processes:
        process.join()
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", "--ranks", type=int, default=2)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures, with machine and versions")
    args = parser.parse_args()
    print("| bytes | bfloat16, µs | float16, µs | float32, µs | bfloat16's rate over float32's | float16's |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: |")
    rows = run(args.ranks)
    if args.json:
        import torch

        from ringtree.bench.machine import describe

        about = {"machine": describe(), "torch": torch.__version__}
        args.json.write_text(json.dumps({**about, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
