"""The sums of tensor parallel inference, beside DeepSpeed's private shared memory; in the environment of `make
test-clients`, where DeepSpeed compiles its operator for this machine (a minute, once).

    python -m benchmarks.beside_deepspeed              2, 4 and 8 ranks, bfloat16, float16 and float32, 8 KiB to 1 MiB
    python -m benchmarks.beside_deepspeed -n 2 --json FILE

Each rank adds a tensor in place by `dist.all_reduce` on ringtree, and by `torch.ops.deepspeed.inference_all_reduce_`,
in turns of some 20 ms; shown are medians over turns, of the slowest rank, and the median of each turn's own ratio.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import socket
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.torch_beside_gloo import TURN_S, timed

DTYPES = ("bfloat16", "float16", "float32")
BYTES = tuple(1 << k for k in range(13, 21))
TURNS = 11
MOST_S = 4.0
"""A row ends when it has taken so long."""
HEAD = """| µs | ranks | dtype | DeepSpeed | ringtree | ratio |
| --- | ---: | --- | ---: | ---: | ---: |"""


def rank_main(rank: int, ranks: int, port: int, results: Any) -> None:
    """One rank's part of all rows; rank 0's results."""
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "LOCAL_SIZE": str(ranks)}
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[rank % len(os.sched_getaffinity(0))]})
    import torch
    import torch.distributed as dist
    from deepspeed.ops.op_builder.cpu.comm import ShareMemCommBuilder

    torch.set_num_threads(1)
    dist.init_process_group("ringtree", rank=rank, world_size=ranks)
    meeting = dist.new_group(backend="gloo")
    for turn in range(ranks):  # the first compiles
        if turn == rank:
            operator = ShareMemCommBuilder().load(verbose=False)
        dist.barrier(meeting)
    operator.initialize(ranks, rank)
    if operator.vector_kernel_level() < 2:
        raise RuntimeError("DeepSpeed's operator adds 16-bit numbers on CPUs with AVX-512 alone")
    for name in DTYPES:
        for nbytes in BYTES:
            x = torch.ones(nbytes // getattr(torch, name).itemsize, dtype=getattr(torch, name))
            calls: dict[str, Callable[[], Any]] = {
                "deepspeed": lambda x=x: torch.ops.deepspeed.inference_all_reduce_(x),
                "ringtree": lambda x=x: dist.all_reduce(x),
            }
            for call in calls.values():
                x.fill_(rank + 1)
                call()
                assert (x == ranks * (ranks + 1) / 2).all()
                x.zero_()
            found = by_turns(calls, meeting)
            if rank == 0:
                results.put({"ranks": ranks, "dtype": name, "bytes": nbytes, **found})
    dist.barrier()
    dist.destroy_process_group()


def by_turns(calls: dict[str, Callable[[], Any]], meeting: Any) -> dict[str, Any]:
    """Seconds of a call, by whom, as medians; and the ratio."""
    many = {name: max(1, min(int(TURN_S / timed(call, 3, meeting)), 1000)) for name, call in calls.items()}
    seen: dict[str, list[float]] = {name: [] for name in calls}
    spent_s = 0.0  # the same on all ranks, as all times are
    while len(seen["ringtree"]) < TURNS and (spent_s < MOST_S or len(seen["ringtree"]) < 3):
        for name, call in calls.items():
            seen[name].append(timed(call, many[name], meeting))
            spent_s += seen[name][-1] * many[name]
    ratio = median(ours / theirs for ours, theirs in zip(seen["ringtree"], seen["deepspeed"], strict=True))
    return {f"{name}_s": median(times) for name, times in seen.items()} | {"ratio": ratio}


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def run(ranks: int) -> list[dict[str, Any]]:
    """The rows of so many ranks, one to a core in turn."""
    context = multiprocessing.get_context("spawn")
    results, port = context.SimpleQueue(), free_port()
    processes = [context.Process(target=rank_main, args=(rank, ranks, port, results)) for rank in range(ranks)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    if any(process.exitcode for process in processes):
        raise SystemExit(f"{ranks} ranks: one ended with an error")
    return [results.get() for _ in DTYPES for _ in BYTES]


def size(nbytes: int) -> str:
    return f"{nbytes >> 10} KiB" if nbytes < 1 << 20 else f"{nbytes >> 20} MiB"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", "--ranks", default="2,4,8", help="numbers of ranks (default 2,4,8)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures, with machine and versions")
    args = parser.parse_args()
    print(HEAD)
    record = []
    for ranks in map(int, args.ranks.split(",")):
        for row in run(ranks):
            record.append(row)
            times = f"{row['deepspeed_s'] * 1e6:,.1f} | {row['ringtree_s'] * 1e6:,.1f}"
            print(f"| {size(row['bytes'])} | {ranks} | {row['dtype']} | {times} | {row['ratio']:.2f} |", flush=True)
    if args.json:
        import deepspeed
        import torch

        from ringtree.bench.machine import describe

        about = {"machine": describe(), "torch": torch.__version__, "deepspeed": deepspeed.__version__}
        args.json.write_text(json.dumps({**about, "rows": record}, indent=1) + "\n")


if __name__ == "__main__":
    main()
