"""all_reduce by the nccl engine, in nccl-tests' columns: by its backend's own call, or by a schedule.

    torchrun --nproc-per-node 8 benchmarks/nccl_engine.py                        on the GPUs of this machine
    torchrun --nproc-per-node 8 benchmarks/nccl_engine.py --algorithm ring       by grouped sends and receives
    torchrun --nproc-per-node 8 benchmarks/nccl_engine.py --schedule ring.xml    by those of a file's schedule
    RINGTREE_NCCL_CARRIER=gloo torchrun --nproc-per-node 2 benchmarks/nccl_engine.py --most 256K      without GPUs

With NCCL_DEBUG=INFO, NCCL's own lines stand among those of the table, and `ringtree explain` reads both as it reads
nccl-tests' output. Times are means over a run of calls, to the end of the slowest rank.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Any

import torch

import ringtree
from ringtree import formats
from ringtree.cli.arguments.byte_sizes import parse_bytes
from ringtree.ir.schedule import Schedule

CALLS, WARM = 20, 5
LEAST = 8
FACTOR = 8
HEADER = """\
# nThread 1 nGpus 1 minBytes {least} maxBytes {most} step: {factor}(factor) warmup iters: {warm} iters: {calls}
# collective: all_reduce, by {name}
# nranks: {ranks}
#                                              out-of-place                       in-place
#       size         count      type   redop     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                       (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)"""


def main() -> None:
    """Prints the table on rank 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--algorithm", help="the name of an algorithm")
    parser.add_argument("--schedule", type=Path, help="a file of a schedule: ringtree's text, or MSCCL XML")
    parser.add_argument("--most", type=parse_bytes, default=1 << 28, help="the largest size (default 256M)")
    args = parser.parse_args()
    on_host = os.environ.get("RINGTREE_NCCL_CARRIER") == "gloo"
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    with _init() as comm:
        try:
            algorithm = args.algorithm if args.schedule is None else formats.load(args.schedule).schedule
            comm.chosen("all_reduce", comm.size, algorithm=algorithm)
        except ValueError as error:
            sys.exit(f"nccl_engine.py: {error}")
        _table(comm, algorithm, args.most, "cpu" if on_host else "cuda")


def _init() -> ringtree.Communicator:
    try:
        return ringtree.init(engine="nccl")
    except (RuntimeError, ValueError) as error:  # no GPU, no NCCL, another carrier
        sys.exit(f"nccl_engine.py: {error}")


def _table(comm: ringtree.Communicator, algorithm: str | Schedule | None, most: int, device: str) -> None:
    name = comm.chosen("all_reduce", comm.size, algorithm=algorithm).part.program.name
    settings = {"least": LEAST, "most": most, "factor": FACTOR, "warm": WARM, "calls": CALLS}
    if comm.rank == 0:
        print(HEADER.format(name=name, ranks=comm.size, **settings), flush=True)
    size = LEAST
    while size <= most:
        x = torch.ones(size // 4, device=device)
        out = torch.empty_like(x)
        sides = [_side(comm, x, out, algorithm), _side(comm, x, x, algorithm)]
        if comm.rank == 0:
            print(f"{size:12d}  {size // 4:12d}     float     sum  {'  '.join(sides)}", flush=True)
        size *= FACTOR


def _side(comm: ringtree.Communicator, x: Any, out: Any, algorithm: str | Schedule | None) -> str:
    x.fill_(1)
    comm.all_reduce(x, out=out, algorithm=algorithm)
    wrong = int((out != comm.size).sum())
    for _ in range(WARM):
        comm.all_reduce(x, out=out, algorithm=algorithm)
    _settle(x)
    comm.barrier()
    begun_s = time.perf_counter()
    for _ in range(CALLS):
        comm.all_reduce(x, out=out, algorithm=algorithm)
    _settle(x)
    time_s = float(comm.beside("times", engine="shm").all_reduce(time.perf_counter() - begun_s, op="max")) / CALLS
    rate_GBps = x.nbytes / time_s / 1e9
    bus_GBps = rate_GBps * 2 * (comm.size - 1) / comm.size
    return f"{time_s * 1e6:8.2f} {rate_GBps:7.2f} {bus_GBps:7.2f} {wrong:6d}"


def _settle(x: Any) -> None:
    if x.is_cuda:
        torch.cuda.synchronize()


if __name__ == "__main__":
    main()
